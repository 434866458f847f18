package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/apiserver"
)

// access counts the results of authentication, impersonation and authorization.
type access struct {
	users                             *prometheus.CounterVec
	authentications, authorizations   *prometheus.CounterVec
	authenticationTime, authorizeTime *prometheus.HistogramVec
	impersonations                    *prometheus.CounterVec
	impersonationTime                 *prometheus.HistogramVec
}

func newAccess() access {
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels)
	}
	return access{
		users:              counter("authenticated_user_requests", "[ALPHA] Number of authenticated requests, by kind of user name.", "username"),
		authentications:    counter("authentication_attempts", "[ALPHA] Number of requests, by what came of their authentication.", "result"),
		authenticationTime: times("authentication_duration_seconds", "[ALPHA] Time that authentication took.", "result"),
		authorizations:     counter("authorization_attempts_total", "[ALPHA] Number of requests, by what came of their authorization.", "result"),
		authorizeTime:      times("authorization_duration_seconds", "[ALPHA] Time that authorization took.", "result"),
		impersonations:     counter("apiserver_impersonation_attempts_total", "[ALPHA] Number of requests that wanted to act as somebody else, by what came of it.", "mode", "decision"),
		impersonationTime:  times("apiserver_impersonation_attempts_duration_seconds", "[ALPHA] Time that it took to decide on acting as somebody else.", "mode", "decision"),
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (a *access) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		a.users, a.authentications, a.authenticationTime, a.authorizations, a.authorizeTime, a.impersonations, a.impersonationTime,
	}
}

func (a *access) ended(o *apiserver.Observation) {
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	by := &o.Access
	if by.Authentication != "" {
		a.authentications.WithLabelValues(by.Authentication).Inc()
		a.authenticationTime.WithLabelValues(by.Authentication).Observe(seconds(by.AuthenticationTook))
		if by.User != nil {
			a.users.WithLabelValues(userKind(by.User.Name)).Inc()
		}
	}
	if by.Impersonation != "" {
		a.impersonations.WithLabelValues(by.ImpersonationMode, by.Impersonation).Inc()
		a.impersonationTime.WithLabelValues(by.ImpersonationMode, by.Impersonation).Observe(seconds(by.ImpersonationTook))
	}
	if by.Authorization != "" {
		a.authorizations.WithLabelValues(by.Authorization).Inc()
		a.authorizeTime.WithLabelValues(by.Authorization).Observe(seconds(by.AuthorizationTook))
	}
}

// userKind keeps names of users out of the metrics, as upstream does.
func userKind(name string) string {
	switch {
	case name == "admin", name == "client", name == "kube_proxy", name == "kubelet", name == "system:serviceaccount:kube-system:default":
		return name
	case strings.Contains(name, "@"):
		return "email_id"
	}
	return "other"
}
