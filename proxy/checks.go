package proxy

import (
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Check is what the health check node port of a service answers in one IP family: load balancers ask there which nodes
// have endpoints.
type Check struct {
	// Port is the health check node port, served at addresses of the host: of IPv6 ones if Is6.
	Port uint16
	Is6  bool
	// Endpoints is how many addresses on the local nodes are ready.
	Endpoints int
}

// A Checker answers the health checks of services. Its method is not called concurrently, and must not block: Proxy waits
// for it.
type Checker interface {
	// Check changes what is answered for these services: nil ends a service's checks.
	Check(checks map[Service][]Check)
}

// ChecksOf returns the checks of a service, given all its endpoint slices: one for each of its families if it is of the
// type LoadBalancer and its external policy is Local, otherwise none.
func ChecksOf(service *corev1.Service, slices []*discoveryv1.EndpointSlice, node Node) (all []Check) {
	spec := &service.Spec
	if spec.Type != corev1.ServiceTypeLoadBalancer || spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal ||
		spec.HealthCheckNodePort == 0 || len(spec.Ports) == 0 {
		return nil
	}
	for _, ip := range clusterIPs(service) {
		ready := map[netip.Addr]bool{}
		for _, offered := range offers(addressed(slices, ip.Is6())) { // whether or not the service has the port
			for _, e := range endpoints(offered, ip.Is6()) {
				if e.on(node) && e.ready() {
					ready[e.to.Addr()] = true
				}
			}
		}
		all = append(all, Check{Port: uint16(spec.HealthCheckNodePort), Is6: ip.Is6(), Endpoints: len(ready)}) //nolint:gosec // validated
	}
	return all
}

// Health tells whether a Proxy keeps up with what it follows. Make one with NewHealth. It may be used concurrently.
type Health struct {
	timeout time.Duration

	mu      sync.Mutex
	updated time.Time // zero before the proxy runs
	queued  time.Time // since when a change waits; zero if none does
}

// NewHealth returns a Health for one Proxy, which is healthy unless a change waits for longer than the timeout; 0 means
// 1 min.
func NewHealth(timeout time.Duration) *Health {
	if timeout <= 0 {
		timeout = time.Minute
	}
	return &Health{timeout: timeout}
}

// State returns whether the Proxy is healthy, and when it last had written all there was to write; the time is zero
// before it runs.
func (h *Health) State() (healthy bool, updated time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	late := !h.updated.IsZero() && !h.queued.IsZero() && time.Since(h.queued) >= h.timeout
	return !late, h.updated
}

// queue notes that a change waits.
func (h *Health) queue() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queued.IsZero() {
		h.queued = time.Now()
	}
}

// update notes that all is written.
func (h *Health) update() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.updated, h.queued = time.Now(), time.Time{}
}
