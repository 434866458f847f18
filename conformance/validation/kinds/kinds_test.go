package kinds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
)

var rounds = flag.Int("kinds.rounds", 2000, "random objects made of each good one")

// subject is a valid object and its strategy.
type subject struct {
	server
	kind registry.Kind
	via  *registry.Version
	good registry.Object
}

func subjects(t *testing.T) []subject {
	t.Helper()
	data, err := os.ReadFile("testdata/seeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: compiler()}), apps.Kinds(), coordination.Kinds(), core.Kinds(core.Options{}), discovery.Kinds(), policy.Kinds(), scheduling.Kinds(), storage.Kinds())
	var out []subject
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			t.Fatal(err)
		}
		s := subjectOf(t, all, schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
		if err := yaml.UnmarshalStrict(doc, s.good); err != nil {
			t.Fatal(err)
		}
		s.good.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		out = append(out, s)
	}
	return out
}

// compiler compiles the expressions of policies.
func compiler() func(composed bool) admissionregistration.Compiler {
	c := typecheck.NewCompiler()
	return func(composed bool) admissionregistration.Compiler {
		compile := c.Policy(composed)
		return func(e admissionregistration.Expression) error { return compile(typecheck.Expression(e)) }
	}
}

func subjectOf(t *testing.T, all []registry.Kind, gvk schema.GroupVersionKind) subject {
	t.Helper()
	for _, k := range all {
		s := subject{server: server{gvk.GroupVersion(), k.Plural}, kind: k}
		if k.GroupVersion.WithKind(k.Names.Kind) == gvk {
			s.good = k.New()
			return s
		}
		for _, v := range k.Also {
			if v.GroupVersion.WithKind(v.Names.Kind) == gvk {
				s.via, s.good = &v, v.New()
				if v.Rules != nil {
					s.kind.Rules = *v.Rules
				}
				return s
			}
		}
	}
	t.Fatalf("no kind %s", gvk)
	return subject{}
}

// ours returns obj as keelson decodes and prepares it.
func (s subject) ours(obj registry.Object) registry.Object {
	obj = obj.DeepCopyObject().(registry.Object)
	if s.via != nil {
		var err error
		if obj, err = s.via.ToStored(context.Background(), obj); err != nil {
			panic(err) // the versions of built-in kinds convert
		}
	}
	if s.kind.Rules.Default != nil {
		s.kind.Rules.Default(obj)
	}
	return obj
}

func mutated(r *rand.Rand, obj runtime.Object, times int) registry.Object {
	obj = obj.DeepCopyObject()
	for range times {
		mutate(r, reflect.ValueOf(obj).Elem())
	}
	return obj.(registry.Object)
}

// incomparable reports whether an object is never valid and its defaults cannot be distinguished in the server's
// internal types.
func incomparable(obj registry.Object) bool {
	d, ok := obj.(*appsv1.Deployment)
	return ok && d.Spec.Strategy.RollingUpdate != nil && d.Spec.Strategy.Type != "" &&
		d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType
}

func TestKinds(t *testing.T) {
	for i, s := range subjects(t) {
		t.Run(fmt.Sprintf("%02d %s %s", i, s.version.Group, s.resource), func(t *testing.T) {
			for seed := range *rounds {
				r := rand.New(rand.NewPCG(uint64(seed), 7))
				next := mutated(r, s.good, 1+r.IntN(4))
				compareCreate(t, s, next)
				old := s.good
				if r.IntN(3) == 0 {
					old = next
				}
				compareUpdate(t, s, r, old)
				if t.Failed() {
					t.Fatalf("at seed %d", seed)
				}
			}
		})
	}
}

func compareCreate(t *testing.T, s subject, obj registry.Object) {
	ours, theirs := s.ours(obj), s.decode(obj)
	if theirs == nil || incomparable(ours) {
		return
	}
	s.same(t, "defaults", ours, theirs)
	if s.resource == "services" { // TestServices covers the rest
		return
	}
	errs := s.create(theirs)
	if s.kind.Rules.PrepareCreate != nil {
		s.kind.Rules.PrepareCreate(t.Context(), ours)
	}
	s.same(t, "created", ours, theirs)
	if s.kind.Rules.Validate != nil {
		sameErrors(t, s.kind.Rules.Validate(ours), errs)
	} else {
		sameErrors(t, nil, errs)
	}
	if t.Failed() {
		t.Logf("create %s", show(obj))
	}
}

func compareUpdate(t *testing.T, s subject, r *rand.Rand, stored registry.Object) {
	in := s.decode(stored)
	if in == nil {
		return
	}
	stored = s.encode(t, in, s.version).(registry.Object)
	stored.SetResourceVersion("1")
	next := mutated(r, stored, 1+r.IntN(3))
	views := slices.Sorted(maps.Keys(s.kind.Sub.Views))
	if s.resource != "services" {
		views = append(views, "")
	}
	for _, view := range views {
		if !t.Failed() {
			compareView(t, s, view, next, stored)
		}
	}
}

func compareView(t *testing.T, s subject, view string, next, stored registry.Object) {
	ours, theirs := s.ours(next), s.decode(next)
	if theirs == nil || incomparable(ours) {
		return
	}
	want := s.update(view, theirs, s.decode(stored))
	got := registrytest.Replace(s.kind, view, ours, s.ours(stored))
	s.same(t, "updated", ours, theirs)
	sameErrors(t, got, want)
	if t.Failed() {
		t.Logf("update %q of %s\nto %s", view, show(stored), show(next))
	}
}

// same compares an object with one of the server's.
func (s subject) same(t *testing.T, what string, ours registry.Object, theirs runtime.Object) {
	t.Helper()
	got := ours.DeepCopyObject()
	got.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if want := s.encode(t, theirs, s.kind.GroupVersion); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
}

func show(obj any) string {
	data, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// sameErrors compares the errors that a client gets, in order except for maps, which the server iterates in any order.
// Pod specs are compared elsewhere.
func sameErrors(t *testing.T, ours, theirs field.ErrorList) {
	t.Helper()
	if got, want := words(ours), words(theirs); !slices.Equal(got, want) {
		t.Errorf("refused:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func words(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		pods := strings.HasPrefix(e.Field, "spec.template.") && !strings.Contains(e.Detail, "does not match template") &&
			!strings.Contains(e.Detail, "in ReplicaSet is not")
		if s := e.Error(); !pods && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	// Adjacent errors about one map may be in any order.
	for i := range out {
		j := i
		for j < len(out) && ofMap(out[j]) && ofMap(out[i]) {
			j++
		}
		slices.Sort(out[i:j])
	}
	return out
}

func ofMap(message string) bool {
	for _, prefix := range []string{"data[", "binaryData[", "status.capacity.", "status.allocatable.", "spec.selector", "endpoints[",
		"spec.hard[", "status.hard[", "status.used["} {
		if strings.HasPrefix(message, prefix) {
			return true
		}
	}
	return false
}
