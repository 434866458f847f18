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
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/autoscaling"
	"github.com/keelson-dev/keelson/registry/batch"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/node"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/resource"
	"github.com/keelson-dev/keelson/registry/resource/selectors"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
	"github.com/keelson-dev/keelson/registry/storagemigration"
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
	all := slices.Concat(admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: compiler()}),
		apps.Kinds(), autoscaling.Kinds(), batch.Kinds(), certificates.Kinds(nil), coordination.Kinds(), core.Kinds(core.Options{}), discovery.Kinds(),
		flowcontrol.Kinds(), node.Kinds(), policy.Kinds(), resource.Kinds(resource.Options{Compile: selectors.Compile}), scheduling.Kinds(), storage.Kinds(), storagemigration.Kinds())
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

// incomparable reports whether an object is never valid, or never stored, and the server's internal types cannot tell.
func incomparable(obj registry.Object) bool {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		s := obj.Spec.Strategy
		return s.RollingUpdate != nil && s.Type != "" && s.Type != appsv1.RollingUpdateDeploymentStrategyType
	case *batchv1.Job:
		return obj.Spec.SuccessPolicy != nil && obj.Spec.Completions == nil || // the server panics
			obj.Spec.Scheduling != nil // a feature that is off
	case *corev1.PersistentVolumeClaim:
		return obj.Status.HealthStatus != nil // a feature that is off
	case *resourcev1.ResourceClaimTemplate:
		return strings.HasPrefix(show(obj), "json: error") // errors show what has no JSON in Go's syntax
	case *appsv1.DaemonSet:
		s := obj.Spec.UpdateStrategy
		return s.RollingUpdate != nil && s.Type != "" && s.Type != appsv1.RollingUpdateDaemonSetStrategyType
	}
	return false
}

// off reports whether a stored object has something of a feature of devices that is off. What has been stored by a server that
// had it on is kept, but not validated.
func off(obj registry.Object) bool {
	text := show(obj)
	return slices.ContainsFunc([]string{"derivedAttributes", "skipNodeOperations", "nodeAllocatableResources", "compatibilityGroups", "partitionTypeAttribute"},
		func(name string) bool { return strings.Contains(text, `"`+name+`":`) })
}

func TestKinds(t *testing.T) {
	for i, s := range subjects(t) {
		t.Run(fmt.Sprintf("%02d %s %s", i, s.version.Group, s.resource), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where both find the same time
				compareKind(t, s)
			})
		})
	}
}

func compareKind(t *testing.T, s subject) {
	for seed := range *rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		next := mutated(r, s.good, 1+r.IntN(4))
		compareCreate(t, s, next)
		old := s.good
		if r.IntN(3) == 0 && !incomparable(s.ours(next)) && !off(next) {
			old = next
		}
		compareUpdate(t, s, r, old)
		if t.Failed() {
			t.Fatalf("at seed %d", seed)
		}
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
		s.kind.Rules.PrepareCreate(authn.NewContext(t.Context(), &authn.Identity{Name: "ann"}), ours)
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
	if restore := s.kind.Rules.Reading.Restore; restore != nil && s.via == nil {
		restore(stored)
	}
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
	if theirs == nil || incomparable(ours) || off(stored) {
		return
	}
	want := s.update(view, theirs, s.decode(stored))
	got := registrytest.Replace(s.kind, view, ours, s.ours(stored))
	s.same(t, "updated", ours, theirs)
	if len(want) > 1 && len(s.create(s.decode(stored))) > 0 {
		// What was invalid before is refused by upstream's older rules alone, which come first.
		byText(got)
		byText(want)
	}
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
	want := s.encode(t, theirs, s.kind.GroupVersion)
	if s.resource == "persistentvolumeclaims" || s.resource == "jobs" {
		legacyscheme.Scheme.Default(want) // they get their phase, or the labels of their pods, when they are read
	}
	if !equality.Semantic.DeepEqual(got, want) {
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

func byText(errs field.ErrorList) {
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
}

func words(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		pods := strings.HasPrefix(e.Field, "spec.template.") && !strings.Contains(e.Detail, "does not match template") &&
			!strings.Contains(e.Detail, "in ReplicaSet is not")
		if s := pointer.ReplaceAllString(e.Error(), "0x"); !pods && !slices.Contains(out, s) {
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

// pointer matches addresses, which errors about values that have no JSON show.
var pointer = regexp.MustCompile(`0x[0-9a-f]+`)

// keyed are paths that have the key of a map.
var keyed = regexp.MustCompile(`^([^:]*\[[^\]]*[^0-9\]][^\]]*\]|overhead\.limits\[|spec\.limits\[\d+\]\.\w+\[|` +
	`spec\.(devices|sharedCounters)\[\d+\](\.consumesCounters\[\d+\])?\.(attributes|capacity|counters)[.:[]|` +
	`(binaryD|d)ata\[|(spec|status)\.(hard|used|capacity|allocat\w+)[.\[:]|spec\.selector|endpoints\[|[^:]*\.(matchLabels|nodeSelector):)`)

func ofMap(message string) bool {
	return keyed.MatchString(message) || strings.HasSuffix(message, "must populate the given metric source only")
}
