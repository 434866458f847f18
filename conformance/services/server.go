package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // the types it converts and defaults
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// Step is one request and its result.
type Step struct {
	Do     string          `json:"do"` // create, update or delete
	Name   string          `json:"name"`
	DryRun bool            `json:"dryRun,omitempty"`
	Spec   json.RawMessage `json:"spec,omitempty"` // as a client sends it; values from earlier answers are tokens
	// Error is the error that the client gets, Result the object that it gets otherwise, with tokens for allocated
	// values.
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Taken  []int           `json:"taken"` // addresses of each family, then ports
}

// Sequence is steps on an initially empty server.
type Sequence struct {
	Networks []string `json:"networks"`
	Ports    string   `json:"ports"`
	Steps    []Step   `json:"steps"`
}

// server is upstream's, without its store.
type server struct {
	alloc    storage.Allocators
	ips      []*ipallocator.Range
	ports    *portallocator.PortAllocator
	services map[string]*stored
}

// stored is a service with the tokens for its values.
type stored struct {
	*api.Service
	tokens map[string]string // value → token
	next   int
}

func newServer(networks []string, ports string) (*server, error) {
	s := &server{services: map[string]*stored{}}
	byFamily := map[api.IPFamily]ipallocator.Interface{}
	var first api.IPFamily
	for _, network := range networks {
		_, cidr, err := net.ParseCIDR(network)
		if err != nil {
			return nil, err
		}
		r, err := ipallocator.NewInMemory(cidr)
		if err != nil {
			return nil, err
		}
		family := api.IPv6Protocol
		if cidr.IP.To4() != nil {
			family = api.IPv4Protocol
		}
		if first == "" {
			first = family
		}
		byFamily[family] = r
		s.ips = append(s.ips, r)
	}
	pr, err := utilnet.ParsePortRange(ports)
	if err != nil {
		return nil, err
	}
	if s.ports, err = portallocator.NewInMemory(*pr); err != nil {
		return nil, err
	}
	s.alloc = makeAlloc(first, byFamily, s.ports)
	return s, nil
}

func (s *server) taken() []int {
	var taken []int
	for _, r := range s.ips {
		taken = append(taken, r.Used())
	}
	return append(taken, s.ports.Used())
}

// ofServices returns the context of a request for services, which declarative validation needs.
func ofServices() context.Context {
	return request.WithRequestInfo(request.WithNamespace(request.NewContext(), "ns"), &request.RequestInfo{APIVersion: "v1", Resource: "services"})
}

// create does what upstream's registry does around its store.
func (s *server) create(name string, spec corev1.ServiceSpec, dryRun bool) (*api.Service, error) {
	svc, err := internal(name, spec)
	if err != nil {
		return nil, err
	}
	normalizeClusterIPs(storage.After{Service: svc}, storage.Before{})
	t, err := allocateCreate(&s.alloc, svc, dryRun)
	if err != nil {
		return nil, err
	}
	if err := rest.BeforeCreate(service.Strategy, ofServices(), svc); err != nil {
		t.Revert()
		return nil, err
	}
	switch {
	case s.services[name] != nil:
		t.Revert()
		return nil, fmt.Errorf("services %q already exists", name)
	case dryRun:
		t.Revert()
	default:
		t.Commit()
	}
	return svc, nil
}

// errPanic means that upstream's code panicked. It does when a service without selector becomes headless in a cluster
// of one family, and thus has two families of which one does not exist.
var errPanic = errors.New("panic")

func (s *server) update(name string, spec corev1.ServiceSpec, dryRun bool) (_ *api.Service, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	svc, err := internal(name, spec)
	if err != nil {
		return nil, err
	}
	old := s.services[name].Service.DeepCopy()
	old.ResourceVersion = "1"
	svc.ResourceVersion, svc.UID, svc.CreationTimestamp = old.ResourceVersion, old.UID, old.CreationTimestamp
	after, before := storage.After{Service: svc}, storage.Before{Service: old}
	patchAllocatedValues(after, before)
	normalizeClusterIPs(after, before)
	t, err := allocateUpdate(&s.alloc, after, before, dryRun)
	if err != nil {
		return nil, err
	}
	if err := rest.BeforeUpdate(service.Strategy, ofServices(), svc, old); err != nil {
		t.Revert()
		return nil, err
	}
	if dryRun {
		t.Revert()
	} else {
		t.Commit()
	}
	return svc, nil
}

func (s *server) remove(name string) { releaseAllocatedResources(&s.alloc, s.services[name].Service) }

// repair frees addresses that no service has: if one family has no address left, upstream leaks those of the other, and
// its repair loop frees them later.
func (s *server) repair() {
	used := map[string]bool{}
	for _, svc := range s.services {
		for _, ip := range svc.Spec.ClusterIPs {
			used[ip] = true
		}
	}
	for _, r := range s.ips {
		var leaked []net.IP
		r.ForEach(func(ip net.IP) {
			if !used[ip.String()] {
				leaked = append(leaked, ip)
			}
		})
		for _, ip := range leaked {
			_ = r.Release(ip)
		}
	}
}

// internal returns a service as the server decodes it.
func internal(name string, spec corev1.ServiceSpec) (*api.Service, error) {
	v1 := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: *spec.DeepCopy()}
	legacyscheme.Scheme.Default(v1)
	out, err := legacyscheme.Scheme.ConvertToVersion(v1, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	svc := out.(*api.Service)
	rest.FillObjectMetaSystemFields(svc)
	return svc, nil
}

// external returns a service as clients see it.
func external(svc *api.Service) (*corev1.Service, error) {
	out, err := legacyscheme.Scheme.ConvertToVersion(svc.DeepCopy(), corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return out.(*corev1.Service), nil
}
