package upkeep_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/flowcontrol/upkeep"
	"github.com/keelson-dev/keelson/storage/memory"
)

// world is a registry with an Upkeep.
type world struct {
	*registry.Registry
	upkeep *upkeep.Upkeep
}

// begin runs a registry until the test ends; it is to be called in a bubble.
func begin(t testing.TB) world {
	t.Helper()
	return beginWith(t, flowcontrol.Kinds(), upkeep.Options{})
}

func beginWith(t testing.TB, kinds []registry.Kind, o upkeep.Options) world {
	t.Helper()
	r, err := registry.New(memory.New(memory.Options{}), kinds, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	background(t, r.Run)
	if err := r.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := upkeep.New(r, o)
	if err != nil {
		t.Fatal(err)
	}
	return world{r, u}
}

// background runs something until the test ends.
func background(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w world) resource(t testing.TB, plural string) *registry.Resource {
	t.Helper()
	res, ok := w.Resource(schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: plural})
	if !ok {
		t.Fatal(plural)
	}
	return res
}

func (w world) once(t testing.TB) {
	t.Helper()
	if err := w.upkeep.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (w world) names(t testing.TB, plural string) []string {
	t.Helper()
	list, err := w.resource(t, plural).List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Object.GetName())
	}
	return names
}

func change[T registry.Object](t testing.TB, w world, plural, name string, to func(T)) {
	t.Helper()
	_, _, err := w.resource(t, plural).Update(t.Context(), "", name, func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.DeepCopyObject().(T)
		to(obj)
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func read[T registry.Object](t testing.TB, w world, plural, name string) T {
	t.Helper()
	item, err := w.resource(t, plural).Get(t.Context(), "", name, "")
	if err != nil {
		t.Fatal(err)
	}
	return item.Object.(T)
}

func create(t testing.TB, w world, plural string, obj registry.Object) {
	t.Helper()
	if _, err := w.resource(t, plural).Create(t.Context(), obj, registry.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, w world, plural, name string) {
	t.Helper()
	if _, _, err := w.resource(t, plural).Delete(t.Context(), "", name, registry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func levels() []string {
	return []string{"catch-all", "exempt", "global-default", "leader-election", "node-high", "system", "workload-high", "workload-low"}
}

func schemas() []string {
	return []string{"catch-all", "exempt", "global-default", "kube-controller-manager", "kube-scheduler", "kube-system-service-accounts", "probes",
		"service-accounts", "system-leader-election", "system-node-high", "system-nodes"}
}

// TestDefaults: they exist after one round, and a second one writes nothing.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.once(t)
		if got := w.names(t, "prioritylevelconfigurations"); !slices.Equal(got, levels()) {
			t.Errorf("levels %q", got)
		}
		if got := w.names(t, "flowschemas"); !slices.Equal(got, schemas()) {
			t.Errorf("schemas %q", got)
		}
		for _, name := range levels() {
			if l := read[*flowcontrolv1.PriorityLevelConfiguration](t, w, "prioritylevelconfigurations", name); l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != "true" {
				t.Errorf("%s: %v", name, l.Annotations)
			}
		}
		before := w.Revision()
		w.once(t)
		if after := w.Revision(); after != before {
			t.Errorf("%d writes in the second round", after-before)
		}
	})
}

// TestRestored: what others did to the objects, and what a round makes of it.
func TestRestored(t *testing.T) {
	type schema = flowcontrolv1.FlowSchema
	type level = flowcontrolv1.PriorityLevelConfiguration
	for name, tt := range map[string]struct {
		do func(t *testing.T, w world)
		ok func(t *testing.T, w world) bool
	}{
		"a mandatory level is deleted": {
			func(t *testing.T, w world) { remove(t, w, "prioritylevelconfigurations", "exempt") },
			func(t *testing.T, w world) bool {
				return slices.Equal(w.names(t, "prioritylevelconfigurations"), levels())
			},
		},
		"a suggested schema is deleted": {
			func(t *testing.T, w world) { remove(t, w, "flowschemas", "probes") },
			func(t *testing.T, w world) bool { return slices.Equal(w.names(t, "flowschemas"), schemas()) },
		},
		"a suggested level is changed": {
			func(t *testing.T, w world) {
				change(t, w, "prioritylevelconfigurations", "system", func(l *level) { l.Spec.Limited.NominalConcurrencyShares = new(int32(7)) })
			},
			func(t *testing.T, w world) bool {
				return *read[*level](t, w, "prioritylevelconfigurations", "system").Spec.Limited.NominalConcurrencyShares == 30
			},
		},
		"a suggested level is taken over": {
			func(t *testing.T, w world) {
				change(t, w, "prioritylevelconfigurations", "system", func(l *level) {
					l.Annotations[flowcontrolv1.AutoUpdateAnnotationKey], l.Spec.Limited.NominalConcurrencyShares = "false", new(int32(7))
				})
			},
			func(t *testing.T, w world) bool {
				return *read[*level](t, w, "prioritylevelconfigurations", "system").Spec.Limited.NominalConcurrencyShares == 7
			},
		},
		"a suggested schema is taken over": {
			func(t *testing.T, w world) {
				change(t, w, "flowschemas", "probes", func(s *schema) {
					s.Annotations[flowcontrolv1.AutoUpdateAnnotationKey], s.Spec.MatchingPrecedence = "false", 7
				})
			},
			func(t *testing.T, w world) bool {
				return read[*schema](t, w, "flowschemas", "probes").Spec.MatchingPrecedence == 7
			},
		},
		"a mandatory schema is taken over": {
			func(t *testing.T, w world) {
				change(t, w, "flowschemas", "exempt", func(s *schema) { s.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false" })
			},
			func(t *testing.T, w world) bool {
				return read[*schema](t, w, "flowschemas", "exempt").Annotations[flowcontrolv1.AutoUpdateAnnotationKey] == "true"
			},
		},
		"another version had a schema": {
			func(t *testing.T, w world) {
				create(t, w, "flowschemas", flow("old", "system", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}))
			},
			func(t *testing.T, w world) bool { return slices.Equal(w.names(t, "flowschemas"), schemas()) },
		},
		"another version had a level": {
			func(t *testing.T, w world) {
				_, suggested := apf.DefaultLevels()
				suggested[0].Name = "old"
				create(t, w, "prioritylevelconfigurations", suggested[0])
			},
			func(t *testing.T, w world) bool {
				return slices.Equal(w.names(t, "prioritylevelconfigurations"), levels())
			},
		},
		"somebody has a schema": {
			func(t *testing.T, w world) { create(t, w, "flowschemas", flow("mine", "system", nil)) },
			func(t *testing.T, w world) bool { return slices.Contains(w.names(t, "flowschemas"), "mine") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t)
				w.once(t)
				tt.do(t, w)
				background(t, w.upkeep.Run)
				time.Sleep(61 * time.Second)
				synctest.Wait()
				if !tt.ok(t, w) {
					t.Errorf("levels %q, schemas %q", w.names(t, "prioritylevelconfigurations"), w.names(t, "flowschemas"))
				}
			})
		})
	}
}

func flow(name, level string, annotations map[string]string) *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: 500,
	}}
}

// dangling returns the condition of a schema in short.
func dangling(t testing.TB, w world, name string) string {
	t.Helper()
	for _, c := range read[*flowcontrolv1.FlowSchema](t, w, "flowschemas", name).Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// TestDangling: schemas tell whether their level is there, as soon as Wake says that something has changed.
func TestDangling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.once(t)
		create(t, w, "flowschemas", flow("mine", "nothing", nil))
		background(t, w.upkeep.Run)
		synctest.Wait()
		for _, name := range schemas() {
			level := read[*flowcontrolv1.FlowSchema](t, w, "flowschemas", name).Spec.PriorityLevelConfiguration.Name
			want := fmt.Sprintf("False Found This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level)
			if got := dangling(t, w, name); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		const missing = `True NotFound This FlowSchema references the PriorityLevelConfiguration object named "nothing" but there is no such object`
		if got := dangling(t, w, "mine"); got != missing {
			t.Errorf("missing: %s", got)
		}
		_, suggested := apf.DefaultLevels()
		suggested[0].Name, suggested[0].Annotations = "nothing", nil
		create(t, w, "prioritylevelconfigurations", suggested[0])
		w.upkeep.Wake()
		synctest.Wait()
		const found = `False Found This FlowSchema references the PriorityLevelConfiguration object named "nothing" and it exists`
		if got := dangling(t, w, "mine"); got != found {
			t.Errorf("found: %s", got)
		}
		remove(t, w, "prioritylevelconfigurations", "nothing")
		w.upkeep.Wake()
		synctest.Wait()
		if got := dangling(t, w, "mine"); got != missing {
			t.Errorf("missing again: %s", got)
		}
		fields := read[*flowcontrolv1.FlowSchema](t, w, "flowschemas", "mine").ManagedFields
		if len(fields) != 1 {
			t.Fatalf("after three changes it has the fields of %v", fields)
		}
		f := fields[0]
		const own = `{"f:status":{"f:conditions":{"k:{\"type\":\"Dangling\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`
		if f.Manager != "api-priority-and-fairness-config-consumer-v1" || f.Operation != metav1.ManagedFieldsOperationApply || f.Subresource != "status" ||
			f.APIVersion != "flowcontrol.apiserver.k8s.io/v1" || f.FieldsType != "FieldsV1" || f.FieldsV1.GetRawString() != own || f.Time.IsZero() {
			t.Errorf("fields of %+v", f)
		}
	})
}

// TestTruce: somebody who always changes a condition back is not fought faster than six times a minute.
func TestTruce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t)
		w.once(t)
		background(t, w.upkeep.Run)
		synctest.Wait()
		fight := func() bool {
			_, _, err := w.resource(t, "flowschemas").Update(t.Context(), "", "probes", func(_ context.Context, current registry.Object) (registry.Object, error) {
				s := current.DeepCopyObject().(*flowcontrolv1.FlowSchema)
				s.Status.Conditions = nil
				return s, nil
			}, registry.UpdateOptions{View: "status"})
			if err != nil {
				t.Fatal(err)
			}
			w.upkeep.Wake()
			synctest.Wait()
			return dangling(t, w, "probes") != ""
		}
		for i := range 5 { // and one at the start
			if !fight() {
				t.Fatalf("not set after round %d", i)
			}
		}
		if fight() {
			t.Error("set for the seventh time")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if dangling(t, w, "probes") == "" {
			t.Error("not set later")
		}
	})
}

// TestNoKinds: there must be something to keep.
func TestNoKinds(t *testing.T) {
	r, err := registry.New(memory.New(memory.Options{}), nil, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := upkeep.New(r, upkeep.Options{}); err == nil {
		t.Error("no error")
	}
}
