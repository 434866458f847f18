// Package logs reads the logs of containers as a kubelet serves them, and rotates them.
//
// Logs are files in the format of CRI: one line for each line of output, or for a part of one that
// is long, with time, stream and a tag (https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md).
// The container runtime writes LOG; a Rotator renames it to LOG.TIMESTAMP, compresses older ones to
// LOG.TIMESTAMP.gz and removes the oldest. Read returns what all of them hold as one log, from the
// beginning, from a time or the last lines, and may follow it while the container runs, also across
// rotations.
//
// Lines that cannot be read are left out. Files belong to the runtime and may go at any time.
package logs
