package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// network makes all addresses of endpoints ones of this namespace, and gives the others somewhere to go.
func network(ctx context.Context) error {
	for _, command := range []string{
		"ip link set dev lo up", "ip link add uplink0 type veth peer name uplink1", "ip address add 192.0.2.1/24 dev uplink0", "ip link set dev uplink0 up", "ip link set dev uplink1 up",
		"ip route add default dev uplink0", "ip route add local 10.64.0.0/11 dev lo",
	} {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil { //nolint:gosec // these
			return fmt.Errorf("%s: %w\n%s", command, err, out)
		}
	}
	return nil
}

// world is the services, and what answers behind them.
type world struct {
	api      kubernetes.Interface
	ips      []netip.Addr // of the services
	listener net.Listener
	changes  int
}

const namespace = "services"

func serviceName(i int) string { return fmt.Sprintf("service-%d", i) }

// endpoint is one of those that answer.
func endpoint(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(64 + n>>16), byte(n >> 8), byte(n)}) //nolint:gosec // on purpose
}

func newWorld(ctx context.Context, config *rest.Config, services int) (*world, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &world{api: api, ips: make([]netip.Addr, services)}
	if w.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", "0.0.0.0:8080"); err != nil {
		return nil, err
	}
	go w.answer()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := api.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	const workers = 8
	errs := make([]error, workers)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < services && errs[worker] == nil; i += workers {
				errs[worker] = w.create(ctx, i)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// answer tells each client where it has arrived.
func (w *world) answer() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(c.LocalAddr().String())
		_, _ = c.Write([]byte(host))
		_ = c.Close()
	}
}

func (w *world) close() { _ = w.listener.Close() }

func (w *world) create(ctx context.Context, i int) error {
	made, err := w.api.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if w.ips[i], err = netip.ParseAddr(made.Spec.ClusterIP); err != nil {
		return err
	}
	_, err = w.api.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice(i, endpoint(2*i), endpoint(2*i+1)), metav1.CreateOptions{})
	return err
}

func slice(i int, to ...netip.Addr) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName(i), Labels: map[string]string{discoveryv1.LabelServiceName: serviceName(i)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, a := range to {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: new("node-0"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return s
}

// reach connects to a service and returns who answers, if anybody does.
func (w *world) reach(i int) string {
	c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(w.ips[i], 80).String(), 50*time.Millisecond)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	said := make([]byte, 32)
	n, _ := c.Read(said)
	return string(said[:n])
}

// complete waits until some services answer, of which the last is the last of all.
func (w *world) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	const some = 20
	for n := range some {
		for w.reach((n+1)*len(w.ips)/some-1) == "" {
			select {
			case <-ctx.Done():
				return fmt.Errorf("services do not answer: %w", ctx.Err())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

// change moves a service to a new endpoint and returns how long packets took to follow.
func (w *world) change(ctx context.Context) (time.Duration, error) {
	w.changes++
	i, to := w.changes*7919%len(w.ips), endpoint(1<<18+w.changes)
	began := time.Now()
	if _, err := w.api.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(i, to), metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	for w.reach(i) != to.String() {
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("packets to %s do not follow its endpoints", serviceName(i))
		}
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(began), nil
}
