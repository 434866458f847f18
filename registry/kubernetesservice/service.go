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
	// endTime bounds how long the end of a server is worked on.
	endTime = 5 * time.Second
)

// Options of a Service.
type Options struct {
	// Networks are those of cluster IPs: one, or one of each family.
	Networks []netip.Prefix
	// Address and Port are where this server is reached, an address of the family of the first
	// network. Without an address, only the ServiceCIDR is kept.
	Address netip.Addr
	Port    int
	// ServicePort is the service's port; 0 is 443.
	ServicePort int
	// NodePort, if not 0, makes the service one that every node answers for at this port.
	NodePort int
	// Interval between looks; 0 is 10 seconds. A server that has not been heard of for one and a
	// half of them is gone.
	Interval time.Duration
	// Report, if set, is told what is wrong with the ServiceCIDR, to make a warning event of.
	Report func(about registry.Object, reason, message string)
	Logger *slog.Logger
}

// Store is what a Service needs of a storage.Store.
type Store interface {
	storage.Reader
	storage.Writer
}

// Service keeps the objects. Make one with New.
type Service struct {
	registry *registry.Registry
	store    Store
	options  Options
	log      *slog.Logger
	ip       netip.Addr // the service's
	started  bool       // the objects have been set right once
	ending   bool
	told     map[string]bool
	peers    map[string]peer
}

// New returns the keeper of a registry's objects; the leases are kept in the registry's store.
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
		return nil, fmt.Errorf("kubernetes service: network %s has no address to give out", o.Networks[0])
	case o.Address.IsValid() && o.Address.Is4() != ip.Is4():
		return nil, fmt.Errorf("kubernetes service: address %s is of another family than the network %s", o.Address, o.Networks[0])
	case o.Address.IsValid() && (o.Port < 1 || o.Port > 65535):
		return nil, fmt.Errorf("kubernetes service: port %d of address %s is none", o.Port, o.Address)
	case o.Address.IsValid() && len(check.EndpointIP(nil, o.Address.String())) > 0:
		return nil, fmt.Errorf("kubernetes service: address %s cannot be that of endpoints: advertise one that others reach this host by", o.Address)
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

// Run keeps the objects until the context ends, then takes this server out of them, and returns
// nil. The registry must run until it has returned, and the namespace must be there. It is called
// once.
func (s *Service) Run(ctx context.Context) error {
	if s.options.Address.IsValid() && !s.started {
		s.leave(ctx) // what a crash left behind
	}
	tick := time.NewTicker(s.options.Interval)
	defer tick.Stop()
	for {
		if err := s.keep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the service kubernetes is not as it should be", "error", err)
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

// Once sets the objects right once, for a start that waits for them. It must not be called while
// Run runs.
func (s *Service) Once(ctx context.Context) error { return s.keep(ctx) }

// keep sets everything right once.
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

// leave takes this server's lease away, and its endpoint: in the end also if it is the last one.
func (s *Service) leave(ctx context.Context) {
	had, err := s.release(ctx)
	if err == nil && had {
		err = s.keepEndpoints(ctx, true)
	}
	if err != nil && !errors.Is(err, errNone) {
		s.log.Warn("this server's endpoint of the service kubernetes may stay", "error", err)
	}
}

// keepService makes the service if it is not there. At its start, the server also corrects its
// ports and type, which may have been those of another configuration.
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
