package kubernetesservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/internal/check"
	"github.com/keelson-dev/keelson/storage"
)

// Name and namespace of the service.
const (
	Name      = "kubernetes"
	Namespace = "default"
)

const (
	portName = "https"
	// endTime bounds the cleanup of a server that ends.
	endTime = 5 * time.Second
)

// Options are the options of a Service.
type Options struct {
	// Networks are those of cluster IPs: one, or one of each family.
	Networks []netip.Prefix
	// Address and Port are where clients reach this server; the address is of the first network's family.
	// Without an address, only the ServiceCIDR is maintained.
	Address netip.Addr
	Port    int
	// ServicePort is the service's port; 0 is 443.
	ServicePort int
	// NodePort, if not 0, makes it a NodePort service with this port.
	NodePort int
	// Interval is the time between rounds; 0 is 10 seconds. A server whose lease was not renewed for one and a
	// half intervals is considered dead.
	Interval time.Duration
	// Report, if set, receives problems with the ServiceCIDR, for warning events.
	Report func(about registry.Object, reason, message string)
	Logger *slog.Logger
}

// Store is the part of a storage.Store that a Service needs.
type Store interface {
	storage.Reader
	storage.Writer
}

// Service maintains the objects. Make one with New.
type Service struct {
	registry *registry.Registry
	store    Store
	options  Options
	log      *slog.Logger
	ip       netip.Addr // the service's
	started  bool       // the objects have been corrected once
	ending   bool
	told     map[string]bool
	peers    map[string]peer
}

// New returns a Service for a registry's objects; the leases are kept in the registry's store.
func New(r *registry.Registry, store Store, o Options) (*Service, error) {
	if len(o.Networks) == 0 {
		return nil, errors.New("kubernetes service: no network for cluster IPs: set Networks, to 10.96.0.0/12 for example")
	}
	first, err := allocation.NewRange(o.Networks[0])
	if err != nil {
		return nil, fmt.Errorf("kubernetes service: network %s: %w", o.Networks[0], err)
	}
	ip := first.First()
	switch {
	case !first.Contains(ip):
		return nil, fmt.Errorf("kubernetes service: network %s has no address to assign", o.Networks[0])
	case o.Address.IsValid() && o.Address.Is4() != ip.Is4():
		return nil, fmt.Errorf("kubernetes service: address %s is of another family than the network %s", o.Address, o.Networks[0])
	case o.Address.IsValid() && (o.Port < 1 || o.Port > 65535):
		return nil, fmt.Errorf("kubernetes service: port %d of address %s is invalid", o.Port, o.Address)
	case o.Address.IsValid() && len(check.EndpointIP(nil, o.Address.String())) > 0:
		return nil, fmt.Errorf("kubernetes service: address %s cannot be an endpoint's: advertise one at which others can reach this host", o.Address)
	}
	if o.ServicePort == 0 {
		o.ServicePort = 443
	}
	if o.Interval <= 0 {
		o.Interval = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Report == nil {
		o.Report = func(registry.Object, string, string) {}
	}
	return &Service{
		registry: r, store: store, options: o, log: o.Logger, ip: ip,
		told: map[string]bool{}, peers: map[string]peer{},
	}, nil
}

// Run maintains the objects until the context ends, then removes this server from them and returns nil. The
// registry must run until Run has returned, and the namespace must exist. Run is called once.
func (s *Service) Run(ctx context.Context) error {
	if s.options.Address.IsValid() && !s.started {
		s.leave(ctx) // left by a crash
	}
	tick := time.NewTicker(s.options.Interval)
	defer tick.Stop()
	for {
		if err := s.keep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot reconcile the service kubernetes", "error", err)
		}
		select {
		case <-ctx.Done():
			if s.options.Address.IsValid() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
				defer cancel()
				s.ending = true
				s.leave(ctx)
			}
			return nil
		case <-tick.C:
		}
	}
}

// Once reconciles the objects once, for a start that waits for them. It must not be called while Run runs.
func (s *Service) Once(ctx context.Context) error { return s.keep(ctx) }

// keep reconciles everything once.
func (s *Service) keep(ctx context.Context) error {
	var errs []error
	do := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	do("ServiceCIDR", s.keepCIDR(ctx))
	if s.options.Address.IsValid() {
		do("lease", s.renew(ctx))
		do("service", s.keepService(ctx))
		do("endpoints", s.keepEndpoints(ctx, !s.started))
	}
	s.started = s.started || len(errs) == 0
	return errors.Join(errs...)
}

// leave deletes this server's lease and its endpoint, at the end even if it is the last one.
func (s *Service) leave(ctx context.Context) {
	had, err := s.release(ctx)
	if err == nil && had {
		err = s.keepEndpoints(ctx, true)
	}
	if err != nil && !errors.Is(err, errNone) {
		s.log.Warn("cannot remove this server's endpoint of the service kubernetes", "error", err)
	}
}

// keepService creates a missing service. At its start, the server also corrects the service's ports and type,
// which may be left from another configuration.
func (s *Service) keepService(ctx context.Context) error {
	services, ok := s.registry.Resource(schema.GroupResource{Resource: "services"})
	if !ok {
		return errors.New("services are not served")
	}
	want := s.service()
	item, err := services.Get(ctx, Namespace, Name, "0")
	if errors.Is(err, registry.ErrNotFound) {
		_, err = s.registry.Access().Create(ctx, services.GroupResource(), want)
		if errors.Is(err, registry.ErrExists) {
			return nil
		}
		return err
	}
	if err != nil || s.started || samePorts(item.Object.(*corev1.Service), want) {
		return err
	}
	_, _, err = services.Update(ctx, Namespace, Name, func(_ context.Context, current registry.Object) (registry.Object, error) {
		if current == nil {
			return nil, registry.ErrNotFound
		}
		svc := current.DeepCopyObject().(*corev1.Service)
		svc.Spec.Type, svc.Spec.Ports = want.Spec.Type, want.Spec.Ports
		services.Rules.Default(svc)
		return svc, nil
	}, registry.UpdateOptions{})
	return err
}

func (s *Service) service() *corev1.Service {
	kind := corev1.ServiceTypeClusterIP
	if s.options.NodePort > 0 {
		kind = corev1.ServiceTypeNodePort
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: Name,
			Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: int32(s.options.ServicePort),
				TargetPort: intstr.FromInt32(int32(s.options.Port)), NodePort: int32(s.options.NodePort),
			}},
			ClusterIP: s.ip.String(), IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			SessionAffinity: corev1.ServiceAffinityNone, Type: kind,
		},
	}
}

func samePorts(svc, want *corev1.Service) bool {
	if svc.Spec.Type != want.Spec.Type || len(svc.Spec.Ports) != len(want.Spec.Ports) {
		return false
	}
	for i := range want.Spec.Ports {
		if svc.Spec.Ports[i] != want.Spec.Ports[i] {
			return false
		}
	}
	return true
}
