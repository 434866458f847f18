package core

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/allocation"
)

// portPlan is the node ports that a service needs and where they go.
type portPlan struct {
	wishes []allocation.PortWish
	// places are the indexes in spec.ports of the wishes; healthPort stands for the health check port.
	places []int
	// same are ports that get the node port of an earlier one.
	same map[int]int // index in spec.ports → index of the wish
	// wrong is an error to return after the wishes, if these can be fulfilled.
	wrong error
}

const healthPort = -1

// nodePorts allocates missing node ports to the service, and records those that it will no longer need.
func (t *transfer) nodePorts(ctx context.Context) error {
	if t.NodePorts == nil {
		return nil
	}
	plan := &portPlan{same: map[int]int{}}
	if t.old == nil {
		if hasNodePorts(t.svc) {
			t.planNew(plan)
		}
	} else {
		t.planUpdate(plan)
	}
	if plan.wrong == nil {
		t.planHealth(plan)
	}
	return t.takePorts(ctx, plan)
}

// planNew plans a node port for each port of a new service that has none. Ports of the same number, for TCP and
// UDP, say, share a node port.
func (t *transfer) planNew(plan *portPlan) {
	ports := t.svc.Spec.Ports
	first := map[int32]int{} // port number → index of its wish
	for i, p := range ports {
		if p.NodePort == 0 && !getsNodePorts(t.svc) {
			continue
		}
		at, shared := first[p.Port]
		switch {
		case !shared:
			first[p.Port] = len(plan.wishes)
			plan.add(i, allocation.PortWish{Port: askedFor(p.Port, ports), Seed: t.seed(fmt.Sprintf("port/%d", i))})
		case p.NodePort == 0:
			plan.same[i] = at
		case int(p.NodePort) != plan.wishes[at].Port:
			plan.add(i, allocation.PortWish{Port: int(p.NodePort)})
		}
	}
}

// askedFor returns the node port requested for a port number, or 0.
func askedFor(port int32, ports []corev1.ServicePort) int {
	for _, p := range ports {
		if p.Port == port && p.NodePort != 0 {
			return int(p.NodePort)
		}
	}
	return 0
}

// planUpdate plans node ports for new ports, and frees those of removed ones. Node ports that clients set in
// services of types without node ports were never allocated.
func (t *transfer) planUpdate(plan *portPlan) {
	had := nodePortList(t.old)
	if !hasNodePorts(t.svc) {
		t.leavesPorts = append(t.leavesPorts, had...)
		return
	}
	type key struct {
		protocol corev1.Protocol
		port     int32
	}
	have := map[int]bool{}
	for _, port := range had {
		have[port] = true
	}
	seen := map[key]bool{}
	for i, p := range t.svc.Spec.Ports {
		switch {
		case p.NodePort == 0 && !getsNodePorts(t.svc):
			continue
		case p.NodePort == 0:
			plan.add(i, allocation.PortWish{Seed: t.seed(fmt.Sprintf("port/%d", i))})
			continue
		case !have[int(p.NodePort)]:
			plan.add(i, allocation.PortWish{Port: int(p.NodePort)})
			have[int(p.NodePort)] = true
		}
		k := key{p.Protocol, p.NodePort}
		if seen[k] {
			plan.wrong = fmt.Errorf("duplicate nodePort: %v", k)
			return
		}
		seen[k] = true
	}
	stays := nodePorts(t.svc)
	for _, port := range had {
		if !stays[int32(port)] {
			t.leavesPorts = append(t.leavesPorts, port)
		}
	}
}

// planHealth plans the health check port when the service begins to need it.
func (t *transfer) planHealth(plan *portPlan) {
	needed, needs := t.old != nil && hasHealthPort(t.old), hasHealthPort(t.svc)
	switch {
	case !needed && needs:
		plan.add(healthPort, allocation.PortWish{Port: int(t.svc.Spec.HealthCheckNodePort), Seed: t.seed("health")})
	case needed && !needs && t.old.Spec.HealthCheckNodePort > 0:
		t.leavesPorts = append(t.leavesPorts, int(t.old.Spec.HealthCheckNodePort))
	}
}

func (p *portPlan) add(place int, wish allocation.PortWish) {
	p.places = append(p.places, place)
	p.wishes = append(p.wishes, wish)
}

// takePorts allocates the planned ports, all or none, and sets them.
func (t *transfer) takePorts(ctx context.Context, plan *portPlan) error {
	got, err := t.takeOrTry(ctx, plan.wishes)
	if err != nil {
		return t.portError(plan, err)
	}
	if !t.dryRun {
		t.tookPorts = got
	}
	for i, place := range plan.places {
		if place == healthPort {
			t.svc.Spec.HealthCheckNodePort = int32(got[i])
		} else {
			t.svc.Spec.Ports[place].NodePort = int32(got[i])
		}
	}
	for place, wish := range plan.same {
		t.svc.Spec.Ports[place].NodePort = int32(got[wish])
	}
	return plan.wrong
}

func (t *transfer) takeOrTry(ctx context.Context, wishes []allocation.PortWish) ([]int, error) {
	if t.dryRun {
		return t.NodePorts.Try(ctx, wishes)
	}
	got, err := t.NodePorts.Take(ctx, wishes)
	if !errors.Is(err, allocation.ErrNotReady) {
		return got, err
	}
	// The record does not exist on this store yet.
	list, err := t.access.List(ctx, schema.GroupResource{Resource: "services"}, "")
	if err != nil {
		return nil, err
	}
	var used []int
	for _, obj := range list {
		used = append(used, allocation.ServicePorts(obj.(*corev1.Service))...)
	}
	if err := t.NodePorts.Init(ctx, used); err != nil {
		return nil, err
	}
	return t.NodePorts.Take(ctx, wishes)
}

// portError returns upstream's error for a wish that could not be fulfilled.
func (t *transfer) portError(plan *portPlan, err error) error {
	var failed *allocation.PortError
	if !errors.As(err, &failed) {
		return internal(t.svc, "failed to allocate a nodePort: %v", err)
	}
	place := plan.places[failed.Index]
	switch {
	case place == healthPort && failed.Port != 0:
		return internal(t.svc, "failed to allocate requested HealthCheck NodePort %v: %v", failed.Port, err)
	case place == healthPort:
		return internal(t.svc, "failed to allocate a HealthCheck NodePort %v: %v", failed.Port, err)
	case failed.Port == 0:
		return internal(t.svc, "failed to allocate a nodePort: %v", err)
	}
	return invalidService(t.svc, field.Invalid(field.NewPath("spec", "ports").Index(place).Child("nodePort"), failed.Port, err.Error()))
}

// nodePortList returns a service's node ports, duplicates included.
func nodePortList(svc *corev1.Service) []int {
	if !hasNodePorts(svc) {
		return nil
	}
	var ports []int
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			ports = append(ports, int(p.NodePort))
		}
	}
	return ports
}
