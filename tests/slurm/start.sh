#!/usr/bin/env bash
# Starts a Slurm of one node on this machine, without systemd: for tests, in a container, as root.
#
#     tests/slurm/start.sh FOLDER      its files; a second start with the same folder is harmless
#
# Needs Debian's slurmctld, slurmd, slurm-client and munge.
set -euo pipefail
folder=$(realpath -m "${1:?expected a folder for the files of Slurm}")
host=$(hostname -s)
mkdir -p "$folder"/{state,spool} /run/munge
cat > "$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=batch_sched_delay=1,sched_min_interval=200000,defer
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=30
MinJobAge=10
MaxArraySize=10001
NodeName=$host CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$folder/slurm.conf"
[[ -s /etc/munge/munge.key ]] || mungekey --create --force
chown -R munge: /etc/munge /run/munge /var/lib/munge /var/log/munge
pgrep -x munged > /dev/null || runuser -u munge -- /usr/sbin/munged --force
pgrep -x slurmctld > /dev/null || slurmctld
pgrep -x slurmd > /dev/null || slurmd
for _ in $(seq 50); do
  sinfo --noheader --format=%t 2> /dev/null | grep -q idle && exec sinfo
  sleep 0.2
done
echo "error: the node is not idle after 10 seconds; $folder/slurmctld.log and slurmd.log may tell why." >&2
exit 1
