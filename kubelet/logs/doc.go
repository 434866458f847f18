// Package logs reads container logs in the form that a kubelet serves, and rotates them.
//
// Logs are files in the CRI format: each line holds a line of output, or a part of a long one, with a time, a stream
// and a tag (https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md). The
// container runtime writes LOG; a Rotator renames it to LOG.TIMESTAMP, compresses older ones to LOG.TIMESTAMP.gz and
// removes the oldest. Read presents all of these files as one log, from the beginning, from a time or the last lines,
// and can follow it across rotations while the container runs.
//
// Copy presents a log that the runtime keeps itself in the same way.
//
// Malformed lines are skipped. Files belong to the runtime and may disappear at any time.
package logs
