package kinds_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/keelson-dev/keelson/conformance/validation/kinds"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestServices compares services as decoded in a cluster with IPv4 services, before addresses and ports are allocated.
// Errors that the server returns alone at that point must be among keelson's.
func TestServices(t *testing.T) {
	var good []subject
	for _, s := range subjects(t) {
		if s.resource == "services" {
			good = append(good, s)
		}
	}
	for seed := range 10 * *rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		s := pick(r, good...)
		svc := randomService(r, s.good.(*corev1.Service))
		stored := compareNewService(t, s, svc)
		if stored != nil {
			compareChangedService(t, s, changedService(r, stored, pick(r, good...).good.(*corev1.Service)), stored)
		}
		if t.Failed() {
			t.Fatalf("at seed %d", seed)
		}
	}
}

func randomService(r *rand.Rand, of *corev1.Service) *corev1.Service {
	svc := of.DeepCopy()
	for range r.IntN(4) {
		mutate(r, reflect.ValueOf(&svc.Spec).Elem())
	}
	switch r.IntN(4) {
	case 0:
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = "", nil, nil, nil
	case 1:
		svc.Spec.ClusterIPs, svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = nil, nil, nil
	}
	return svc
}

// changedService makes a usual change to a service, or sends another manifest.
func changedService(r *rand.Rand, stored, other *corev1.Service) *corev1.Service {
	svc := stored.DeepCopy()
	if r.IntN(3) == 0 {
		svc = other.DeepCopy()
		svc.ResourceVersion = stored.ResourceVersion
	}
	spec := &svc.Spec
	for range 1 + r.IntN(3) {
		switch r.IntN(8) {
		case 0:
			spec.ClusterIP = pick(r, "", "None", "10.0.0.1", "10.0.0.9", "fd00::1")
		case 1:
			spec.ClusterIPs = pick(r, nil, []string{"None"}, []string{"10.0.0.1"}, []string{"10.0.0.9"}, []string{"10.0.0.1", "fd00::1"})
		case 2:
			spec.Type = pick[corev1.ServiceType](r, "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
			spec.ExternalName = pick(r, "", "foo.bar")
		case 3:
			spec.IPFamilyPolicy = new(pick[corev1.IPFamilyPolicy](r, "SingleStack", "PreferDualStack", "RequireDualStack"))
		case 4:
			spec.IPFamilies = pick(r, nil, []corev1.IPFamily{"IPv4"}, []corev1.IPFamily{"IPv6"}, []corev1.IPFamily{"IPv4", "IPv6"})
		case 5:
			for i := range spec.Ports {
				spec.Ports[i].NodePort = pick[int32](r, 0, 30000, 30001)
			}
		case 6:
			spec.HealthCheckNodePort = 0
			spec.ExternalTrafficPolicy = pick(r, spec.ExternalTrafficPolicy, "Local")
		default:
			mutate(r, reflect.ValueOf(spec).Elem())
		}
	}
	return svc
}

// compareNewService returns the service as it is stored, or nil if it is refused.
func compareNewService(t *testing.T, s subject, svc *corev1.Service) *corev1.Service {
	ours, theirs := s.ours(svc), s.decode(svc).(*api.Service)
	registrytest.Prepare(s.kind, ours)
	got := s.kind.Rules.Validate(ours)
	if err := kinds.CompleteService(theirs, nil); err != nil {
		among(t, got, err)
	} else {
		want := s.create(theirs)
		s.same(t, "created", ours, theirs)
		sameErrors(t, got, withoutHealthPort(want))
	}
	if t.Failed() {
		t.Logf("create %s", show(svc))
	}
	if len(got) > 0 {
		return nil
	}
	ours.SetResourceVersion("1")
	return ours.(*corev1.Service)
}

func compareChangedService(t *testing.T, s subject, svc, stored *corev1.Service) {
	ours, theirs := s.ours(svc), s.decode(svc).(*api.Service)
	old := s.decode(stored).(*api.Service)
	got := registrytest.Replace(s.kind, "", ours, stored.DeepCopy())
	if err := kinds.CompleteService(theirs, old); err != nil {
		among(t, got, err)
	} else {
		want := s.update("", theirs, old)
		s.same(t, "updated", ours, theirs)
		sameErrors(t, got, withoutHealthPort(want))
	}
	if t.Failed() {
		t.Logf("update of %s\nto %s", show(stored), show(svc))
	}
}

// withoutHealthPort drops the error about a missing health check node port: it is allocated later.
func withoutHealthPort(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		return e.Type == field.ErrorTypeRequired && e.Field == "spec.healthCheckNodePort"
	})
}

// among checks that all causes of a status error are in errs.
func among(t *testing.T, errs field.ErrorList, err error) {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	got := words(errs)
	for _, cause := range status.ErrStatus.Details.Causes {
		if want := cause.Field + ": " + cause.Message; !slices.Contains(got, want) {
			t.Errorf("refused:\n  got %s\nlacks %s", strings.Join(got, "\n      "), want)
		}
	}
}
