// Package health answers probes as upstream's API server does: /healthz, /livez and /readyz, each
// check by itself below them, ?verbose and ?exclude=NAME.
//
// New returns the handlers of all paths for a list of checks; they are for apiserver.Options.Paths. An endpoint answers "ok"
// while all its checks pass. Otherwise it answers 500 and which of them failed, but not why, because probes are often open
// to everybody: the reason is at the check's own path and in the log.
//
// Everything here is safe for concurrent use, as far as the checks are.
//
// Source: https://kubernetes.io/docs/reference/using-api/health-checks/
package health
