package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type probeKind int

const (
	liveness probeKind = iota
	readiness
	startup
)

func (v *validator) probe(probe *corev1.Probe, p *field.Path, kind probeKind) {
	if probe == nil {
		return
	}
	h := &probe.ProbeHandler
	v.handler(handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, grpc: h.GRPC}, p)
	v.nonNegative(p.Child("initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	v.nonNegative(p.Child("timeoutSeconds"), int64(probe.TimeoutSeconds))
	v.nonNegative(p.Child("periodSeconds"), int64(probe.PeriodSeconds))
	v.nonNegative(p.Child("successThreshold"), int64(probe.SuccessThreshold))
	v.nonNegative(p.Child("failureThreshold"), int64(probe.FailureThreshold))
	grace := probe.TerminationGracePeriodSeconds
	if grace != nil && *grace <= 0 {
		v.invalid(p.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0")
	}
	if kind == readiness {
		if grace != nil {
			v.invalid(p.Child("terminationGracePeriodSeconds"), grace, "must not be set for readinessProbes")
		}
	} else if probe.SuccessThreshold != 1 {
		v.invalid(p.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

func (v *validator) lifecycle(l *corev1.Lifecycle, p *field.Path) {
	if h := l.PostStart; h != nil {
		v.handler(handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep}, p.Child("postStart"))
	}
	if h := l.PreStop; h != nil {
		v.handler(handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep}, p.Child("preStop"))
	}
	if l.StopSignal != nil {
		v.stopSignal(*l.StopSignal, p.Child("stopSignal"))
	}
}

// handler is the action of a probe or hook; exactly one must be set.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

func (v *validator) handler(h handler, p *field.Path) {
	found := false
	for _, action := range []struct {
		name  string
		used  bool
		check func(*field.Path)
	}{
		{"exec", h.exec != nil, func(p *field.Path) {
			if len(h.exec.Command) == 0 {
				v.required(p.Child("command"), "")
			}
		}},
		{"httpGet", h.httpGet != nil, func(p *field.Path) { v.httpGet(h.httpGet, p) }},
		{"tcpSocket", h.tcpSocket != nil, func(p *field.Path) { v.port(p.Child("port"), h.tcpSocket.Port) }},
		{"grpc", h.grpc != nil, func(p *field.Path) {
			v.port(p.Child("port"), intstr.FromInt32(h.grpc.Port))
			if h.grpc.Mode != nil {
				oneOf(&v.report, p.Child("mode"), *h.grpc.Mode, corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS)
			}
		}},
		{"sleep", h.sleep != nil, func(p *field.Path) { v.sleep(h.sleep, p) }},
	} {
		switch {
		case !action.used:
		case found:
			v.forbidden(p.Child(action.name), "may not specify more than 1 handler type")
		default:
			found = true
			action.check(p.Child(action.name))
		}
	}
	if !found {
		v.required(p, "must specify a handler type")
	}
}

func (v *validator) httpGet(h *corev1.HTTPGetAction, p *field.Path) {
	v.need(p.Child("path"), h.Path)
	v.port(p.Child("port"), h.Port)
	oneOf(&v.report, p.Child("scheme"), h.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for _, header := range h.HTTPHeaders {
		v.invalid(p.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name)...)
	}
	if h.Protocol == nil {
		return
	}
	oneOf(&v.report, p.Child("protocol"), *h.Protocol, corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2)
	switch {
	case *h.Protocol != corev1.HTTPProtocolHTTP2:
	case h.Scheme != corev1.URISchemeHTTP:
		v.invalid(p.Child("protocol"), *h.Protocol, "is only supported with HTTP (H2C)")
	case h.Host != "":
		v.invalid(p.Child("host"), h.Host, "must be empty when `protocol` is \"HTTP2\"")
	}
}

func (v *validator) port(p *field.Path, port intstr.IntOrString) {
	switch port.Type {
	case intstr.Int:
		v.invalid(p, port.IntValue(), validation.IsValidPortNum(port.IntValue())...)
	case intstr.String:
		v.invalid(p, port.StrVal, validation.IsValidPortName(port.StrVal)...)
	default:
		v.add(field.InternalError(p, fmt.Errorf("unknown type: %v", port.Type)))
	}
}

func (v *validator) sleep(s *corev1.SleepAction, p *field.Path) {
	grace := v.spec.TerminationGracePeriodSeconds
	if grace != nil && (s.Seconds < 0 || s.Seconds > *grace) {
		v.invalid(p, s.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))
	}
}

func (v *validator) stopSignal(signal corev1.Signal, p *field.Path) {
	switch system := v.spec.OS; {
	case system == nil:
		v.forbidden(p, "may not be set for containers with empty `spec.os.name`")
	case system.Name == corev1.Windows:
		oneOf(&v.report, p, signal, corev1.SIGKILL, corev1.SIGTERM)
	case system.Name == corev1.Linux:
		oneOf(&v.report, p, signal, linuxSignals()...)
	}
}

// linuxSignals returns the signals of Linux sorted by name.
func linuxSignals() []corev1.Signal {
	signals := []corev1.Signal{
		corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE,
		corev1.SIGHUP, corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE,
		corev1.SIGPOLL, corev1.SIGPROF, corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP,
		corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP, corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG,
		corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH, corev1.SIGXCPU, corev1.SIGXFSZ,
		corev1.SIGRTMIN, corev1.SIGRTMAX,
	}
	for i := 1; i <= 15; i++ {
		signals = append(signals, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)))
		if i < 15 {
			signals = append(signals, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
		}
	}
	slices.Sort(signals)
	return signals
}
