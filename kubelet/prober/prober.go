package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet"
)

const (
	version        = "1.37"
	defaultTimeout = time.Second // of probes that set none
	attempts       = 3           // at probes that could not be carried out
	maxBody        = 10 << 10    // bytes read of a response
	maxRedirects   = 10
)

// Error means that a probe could not be carried out; it says nothing about the container.
type Error struct {
	// State is upstream's result for such a probe: "unknown", or "failure" if a response broke off.
	State string
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ProbeState returns State; it lets callers check for it without importing this package.
func (e *Error) ProbeState() string { return e.State }

func unknown(err error) error { return &Error{State: "unknown", Err: err} }

// Options configures a Prober. The zero value is valid.
type Options struct {
	// HostIP is the address at which pods on the node's network are probed if they have no address yet; empty is
	// 127.0.0.1.
	HostIP string
	// Recorder records warnings about unusual responses; nil drops them.
	Recorder events.Recorder
}

// Prober probes containers over the network. Make one with New.
type Prober struct {
	hostIP     string
	recorder   events.Recorder
	transport  *http.Transport
	hookClient *http.Client
}

var _ kubelet.Prober = (*Prober)(nil)

// New makes a Prober.
func New(o Options) *Prober {
	p := &Prober{hostIP: cmp.Or(o.HostIP, "127.0.0.1"), recorder: o.Recorder, transport: probeTransport()}
	if p.recorder == nil {
		p.recorder = events.Discard()
	}
	p.hookClient = &http.Client{Transport: hookTransport(), CheckRedirect: withinHost}
	return p
}

// Probe runs the target's probe once. It takes no longer than the probe's timeout or the context.
func (p *Prober) Probe(ctx context.Context, target kubelet.ProbeTarget) error {
	if target.Probe == nil {
		return nil
	}
	limits, stop := newLimits(ctx, target.Probe)
	defer stop()
	spec := target.Probe
	switch {
	case spec.HTTPGet != nil:
		return p.get(limits, target)
	case spec.TCPSocket != nil:
		host, err := p.host(target, spec.TCPSocket.Host)
		if err != nil {
			return unknown(err)
		}
		port, err := containerPort(spec.TCPSocket.Port, target.Container)
		if err != nil {
			return unknown(err)
		}
		return dialTCP(limits, net.JoinHostPort(host, strconv.Itoa(port)))
	case spec.GRPC != nil:
		host, err := p.host(target, "")
		if err != nil {
			return unknown(err)
		}
		service := ""
		if spec.GRPC.Service != nil {
			service = *spec.GRPC.Service
		}
		return checkHealth(limits, net.JoinHostPort(host, strconv.Itoa(int(spec.GRPC.Port))), service)
	default:
		return unknown(fmt.Errorf("missing probe handler for %s:%s", describe(target.Pod), nameOf(target.Container)))
	}
}

// limits are how long a probe may take. The protocols' clients word their timeout errors differently from contexts, so
// the context here ends only when the caller gives up; the clients themselves time out after the remaining time.
type limits struct {
	ctx    context.Context //nolint:containedctx // it lives for one call
	spec   time.Duration   // from the probe, for messages
	remain time.Duration   // the rest of it, or of the caller's time
}

func newLimits(parent context.Context, probe *corev1.Probe) (l limits, stop func()) {
	l.spec = defaultTimeout
	if probe.TimeoutSeconds > 0 {
		l.spec = time.Duration(probe.TimeoutSeconds) * time.Second
	}
	l.remain = l.spec
	if deadline, ok := parent.Deadline(); ok {
		l.remain = max(min(l.remain, time.Until(deadline)), 1) // 0 would mean no limit
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	release := context.AfterFunc(parent, func() {
		if !errors.Is(parent.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	l.ctx = ctx
	return l, func() { release(); cancel() }
}

// host is the address to probe: the one in the probe, or the pod's.
func (p *Prober) host(target kubelet.ProbeTarget, host string) (string, error) {
	switch {
	case host != "":
		return host, nil
	case len(target.IPs) > 0 && target.IPs[0] != "":
		return target.IPs[0], nil
	case target.Pod != nil && target.Pod.Spec.HostNetwork:
		return p.hostIP, nil
	default:
		return "", errors.New("the pod has no IP address")
	}
}

// containerPort resolves a port given as a number, as the name of one of the container's ports, or as a number in
// quotes.
func containerPort(port intstr.IntOrString, c *corev1.Container) (int, error) {
	var number int
	switch port.Type {
	case intstr.Int:
		number = port.IntValue()
	case intstr.String:
		named, err := portByName(c, port.StrVal)
		if err != nil {
			if named, err = strconv.Atoi(port.StrVal); err != nil {
				return 0, err
			}
		}
		number = named
	default:
		return 0, fmt.Errorf("intOrString had no kind: %+v", port)
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", number)
	}
	return number, nil
}

func portByName(c *corev1.Container, name string) (int, error) {
	if c != nil {
		for _, p := range c.Ports {
			if p.Name == name {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, fmt.Errorf("port %s not found", name)
}

// dialTCP succeeds if a connection can be made.
func dialTCP(l limits, address string) error {
	dialer := newDialer()
	dialer.Timeout = l.remain
	conn, err := dialer.DialContext(l.ctx, "tcp", address)
	if err != nil {
		return err
	}
	_ = conn.Close() // only opening it counts
	return nil
}

// describe formats a pod for the kubelet's messages.
func describe(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

func nameOf(c *corev1.Container) string {
	if c == nil {
		return ""
	}
	return c.Name
}
