package core

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
)

// Services configures the addresses and ports of services; the zero value allocates none, and treats the
// cluster as having IPv4 services.
type Services struct {
	// Networks are those of cluster IPs, one or one of each family, the default family's first. They only
	// define the families; addresses come from the ServiceCIDRs, which must be served then. Without networks,
	// services get no cluster IPs.
	Networks []netip.Prefix
	// NodePorts allocates node ports. Without it, services get none.
	NodePorts *allocation.Ports
}

func (s Services) families() families {
	var f families
	for _, network := range s.Networks {
		family := corev1.IPv6Protocol
		if network.Addr().Is4() {
			family = corev1.IPv4Protocol
		}
		f = append(f, family)
	}
	if len(f) == 0 {
		f = families{corev1.IPv4Protocol}
	}
	return f
}

// undoTime bounds the release of allocations after the client is gone.
const undoTime = 10 * time.Second

// allocator allocates cluster IPs and node ports to services when they are written, in upstream's order and
// with upstream's errors.
type allocator struct{ Services }

// reserve is the Rules.Reserve of services.
func (a *allocator) reserve(ctx context.Context, r registry.Reservation[*corev1.Service]) (registry.Settle, error) {
	t := &transfer{allocator: a, access: r.Access, svc: r.Object, old: r.Old, dryRun: r.DryRun, began: time.Now()}
	if r.Object == nil {
		return t.removal(ctx)
	}
	// Families that the cluster does not have are refused first, and alone.
	if errs := a.families().refuse(r.Object, r.Old); len(errs) > 0 {
		return nil, invalidService(r.Object, errs...)
	}
	err := t.addresses(ctx)
	if err == nil {
		err = t.nodePorts(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		t.settle(ctx, registry.NotWritten)
		return nil, err
	}
	if r.DryRun || t.nothing() {
		return nil, nil
	}
	return t.settle, nil
}

// refuse validates addresses and families as far as possible before allocation.
func (f families) refuse(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) || keepsPreference(svc, old) {
		return nil
	}
	if errs := validateClusterIPs(svc, old); len(errs) > 0 {
		return errs
	}
	return f.errors(svc, old)
}

// transfer is the allocations and releases of one write of a service.
type transfer struct {
	*allocator
	access   registry.Access
	svc, old *corev1.Service // old is nil in a create, svc in a removal
	dryRun   bool
	began    time.Time

	took, leaves           []allocation.Address
	tookPorts, leavesPorts []int
}

func (t *transfer) nothing() bool {
	return len(t.took)+len(t.leaves)+len(t.tookPorts)+len(t.leavesPorts) == 0
}

func (t *transfer) owner() allocation.Owner {
	of := t.svc
	if of == nil {
		of = t.old
	}
	return allocation.Owner{Namespace: of.Namespace, Name: of.Name}
}

// settle releases what nobody owns now. Repair releases the rest if it fails.
func (t *transfer) settle(ctx context.Context, o registry.Outcome) {
	back, ports := t.took, t.tookPorts
	switch o {
	case registry.Written:
		back, ports = t.leaves, t.leavesPorts
	case registry.Unknown:
		return
	}
	for _, address := range back {
		_ = address.Release(ctx, t.access)
	}
	if t.NodePorts != nil {
		_ = t.NodePorts.Release(ctx, ports, t.began)
	}
}

// removal releases everything, and deletes the endpoints at once, so that a new service of the same name does
// not begin with the old one's.
func (t *transfer) removal(ctx context.Context) (registry.Settle, error) {
	if err := t.leaveAddresses(ctx, t.old.Spec.ClusterIPs); err != nil {
		return nil, err
	}
	if t.NodePorts != nil {
		t.leavesPorts = nodePortList(t.old)
		if hasHealthPort(t.old) && t.old.Spec.HealthCheckNodePort > 0 {
			t.leavesPorts = append(t.leavesPorts, int(t.old.Spec.HealthCheckNodePort))
		}
	}
	return func(ctx context.Context, o registry.Outcome) {
		if o == registry.Written {
			key := registry.ObjectKey{Resource: schema.GroupResource{Resource: "endpoints"}, Namespace: t.old.Namespace, Name: t.old.Name}
			_ = t.access.Delete(ctx, key, metav1.DeleteOptions{}) // usually there are none any more
		}
		t.settle(ctx, o)
	}, nil
}

// seed derives choices from the service's UID: they are as random, or as repeatable, as the UID.
func (t *transfer) seed(what string) uint64 {
	sum := sha256.Sum256([]byte(string(t.svc.UID) + "/" + what))
	return binary.LittleEndian.Uint64(sum[:8])
}

func invalidService(svc *corev1.Service, errs ...*field.Error) error {
	return &registry.Error{
		Err: registry.ErrInvalid, Resource: schema.GroupResource{Resource: "services"}, Kind: "Service",
		Name: svc.Name, Fields: errs,
	}
}

func internal(svc *corev1.Service, format string, args ...any) error {
	return &registry.Error{
		Err: registry.ErrInternal, Resource: schema.GroupResource{Resource: "services"}, Name: svc.Name,
		Message: fmt.Sprintf(format, args...),
	}
}
