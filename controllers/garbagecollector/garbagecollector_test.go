package garbagecollector_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/garbagecollector"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
)

// bench is a running collector with its API, in a bubble. Objects are config maps named
// "namespace/name", and cluster roles named "name".
type bench struct {
	*testing.T
	api    *controllerstest.API
	graph  garbagecollector.Graph
	events controllerstest.Recorder
	// What the collector asks, if not the server itself, and where failures are logged.
	client *trial.Client
	log    *slog.Logger
	feed   *lag.Source[informer.Object] // of config maps
}

var (
	configMaps   = corev1.SchemeGroupVersion.WithResource("configmaps")
	clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	secrets      = corev1.SchemeGroupVersion.WithResource("secrets") // which may be owners, and are not followed
)

func inBubble(t *testing.T, before func(*bench, faults.Request) error, test func(*bench)) {
	t.Helper()
	withWorkers(t, 1, before, test)
}

func withWorkers(t *testing.T, workers int, before func(*bench, faults.Request) error, test func(*bench)) {
	t.Helper()
	(&bench{}).run(t, workers, before, test)
}

func (b *bench) run(t *testing.T, workers int, before func(*bench, faults.Request) error, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T = t
		b.api = controllerstest.Start(t, controllerstest.Options{Before: func(r faults.Request) error {
			if before == nil {
				return nil
			}
			return before(b, r)
		}})
		var asked garbagecollector.Client = b.api
		if b.client != nil {
			b.client.Client = b.api
			asked = b.client
		}
		detect := informer.Options{DetectMutations: func(err error) { b.Error(err) }}
		b.feed = controllerstest.Source[informer.Object](b.api, configMaps)
		maps := informer.New(b.feed, detect)
		roles := informer.New(controllerstest.Source[informer.Object](b.api, clusterRoles), detect)
		c := garbagecollector.New([]garbagecollector.Kind{
			{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true, Objects: maps},
			{GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Resource: "clusterroles", Objects: roles},
			{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), Resource: "secrets", Namespaced: true},
		}, asked, &b.events)
		b.graph = garbagecollector.GraphOf(c)
		controllerstest.Go(t, maps, roles, controllers.NewLoop(c, controllers.Options{Workers: workers, Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

// reads counts the requests since the last reset that read an object of that name; "" is any.
func (b *bench) reads(name string) (count int) {
	for _, r := range b.api.Requests() {
		if r.Verb == faults.Get && (name == "" || r.Target.Name == name) {
			count++
		}
	}
	return count
}

func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// target is where an object of that name is.
func target(name string) client.Target {
	if namespace, short, ok := strings.Cut(name, "/"); ok {
		return client.Target{Resource: configMaps, Namespace: namespace, Name: short}
	}
	return client.Target{Resource: clusterRoles, Name: name}
}

func newObject(name string, owners []metav1.OwnerReference, finalizers []string) informer.Object {
	at := target(name)
	m := metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, OwnerReferences: owners, Finalizers: finalizers}
	if at.Namespace == "" {
		return &rbacv1.ClusterRole{ObjectMeta: m}
	}
	return &corev1.ConfigMap{ObjectMeta: m}
}

// make creates an object with owners and returns a reference to it.
func (b *bench) make(name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	b.Helper()
	return b.held(name, nil, owners...)
}

// held creates an object that a finalizer holds.
func (b *bench) held(name string, finalizers []string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	b.Helper()
	obj := controllerstest.Add(b, b.api, newObject(name, owners, finalizers))
	synctest.Wait()
	return refTo(obj)
}

// secret creates one and returns a reference to it.
func (b *bench) secret() metav1.OwnerReference {
	b.Helper()
	made := controllerstest.Add(b, b.api, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}})
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "s", UID: made.UID}
}

func refTo(obj metav1.Object) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: obj.GetName(), UID: obj.GetUID()}
	if obj.GetNamespace() == "" {
		ref.APIVersion, ref.Kind = "rbac.authorization.k8s.io/v1", "ClusterRole"
	}
	return ref
}

func blocking(ref metav1.OwnerReference) metav1.OwnerReference {
	yes := true
	ref.BlockOwnerDeletion = &yes
	return ref
}

func (b *bench) delete(name string, policy metav1.DeletionPropagation) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), target(name), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) get(name string) informer.Object {
	b.Helper()
	got, err := b.api.Others.Get(b.Context(), target(name))
	if err != nil {
		b.Fatal(err)
	}
	return got.(informer.Object)
}

// remove deletes an object if it is there. It, change and swap can be called while the collector makes a request.
func (b *bench) remove(name string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), target(name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		b.Error(err)
	}
}

// change is what others make of an object.
func (b *bench) change(name string, change func(informer.Object)) {
	b.Helper()
	obj := b.get(name)
	change(obj)
	if _, err := b.api.Others.Update(b.Context(), target(name), obj, metav1.UpdateOptions{}); err != nil {
		b.Error(err)
	}
}

func owned(refs ...metav1.OwnerReference) func(informer.Object) {
	return func(obj informer.Object) { obj.SetOwnerReferences(refs) }
}

func labelled(obj informer.Object) { obj.SetLabels(map[string]string{"a": "b"}) }

// release takes the finalizers off an object.
func (b *bench) release(name string) {
	b.Helper()
	b.change(name, func(obj informer.Object) {
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return strings.Contains(f, "/") }))
	})
	synctest.Wait()
}

// left lists the objects with their owners, and a "!" for those being deleted.
func (b *bench) left() string {
	b.Helper()
	maps, err := client.As[*corev1.ConfigMapList](b.api.Others.List(b.Context(), client.Target{Resource: configMaps}, metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	roles, err := client.As[*rbacv1.ClusterRoleList](b.api.Others.List(b.Context(), client.Target{Resource: clusterRoles}, metav1.ListOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	var list []string
	for i := range roles.Items {
		list = append(list, describe(roles.Items[i].Name, &roles.Items[i]))
	}
	for i := range maps.Items {
		list = append(list, describe(maps.Items[i].Namespace+"/"+maps.Items[i].Name, &maps.Items[i]))
	}
	return strings.Join(list, " ")
}

func describe(name string, obj metav1.Object) string {
	var owners []string
	for _, ref := range obj.GetOwnerReferences() {
		owners = append(owners, ref.Name)
	}
	if len(owners) > 0 {
		name += "<" + strings.Join(owners, ",")
	}
	if obj.GetDeletionTimestamp() != nil {
		name += "!"
	}
	return name
}

func (b *bench) wantLeft(when, want string) {
	b.Helper()
	b.after(time.Second)
	if got := b.left(); got != want {
		b.Errorf("%s: left are %q, want %q", when, got, want)
	}
}

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// TestWrongReferences: references that do not name the owner of their uid count for nothing, and do not affect
// other references.
func TestWrongReferences(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owner := b.make("a/owner")
		b.make("a/good", owner)
		bad := b.make("b/elsewhere", owner)
		renamed := owner
		renamed.Name = "other"
		b.make("a/renamed", renamed)
		b.make("a/half", renamed, owner)
		rekind := owner
		rekind.APIVersion, rekind.Kind = "rbac.authorization.k8s.io/v1", "ClusterRole"
		b.make("a/rekind", rekind)
		b.make("a/late", owner)
		// Of two references to one uid both go when one is wrong, as upstream's patches have it.
		b.wantLeft("wrong ones", "a/good<owner a/half a/late<owner a/owner")
		want := fmt.Sprintf("Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: b, name: owner, uid: %s] does not exist in namespace \"b\"", owner.UID)
		all := b.events.Events()
		if got := b.events.Take(); len(got) != 1 || got[0] != want || all[0].Regarding.UID != bad.UID || all[0].Regarding.Name != "elsewhere" {
			b.Errorf("events %q about %v, want %q", got, all, want)
		}
		b.delete("a/owner", background)
		b.wantLeft("the owner is gone", "a/half")
		b.delete("a/half", background)
		if n := b.graph.Size(); n != 0 {
			b.Errorf("%d nodes are left", n)
		}
	})
}

// TestScopes: owners without a namespace have dependents everywhere; objects without a namespace
// have no owners in one.
func TestScopes(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		role := b.make("role")
		b.make("a/x", role)
		b.make("b/x", role)
		b.make("sub", role)
		cm := b.make("a/cm")
		b.make("astray", cm)
		b.make("astray2", cm, role)
		lost := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "lost", UID: "lost"}
		b.make("astray3", lost)
		b.wantLeft("all", "astray<cm astray2<cm,role astray3<lost role sub<role a/cm a/x<role b/x<role")
		b.after(time.Hour)
		b.api.Reset()
		b.delete("role", background)
		b.delete("a/cm", background)
		b.wantLeft("no owner is left", "astray<cm astray2<cm,role astray3<lost")
		b.after(time.Hour)
		if b.reads("") > 30 {
			b.Errorf("asked %d times about what cannot be", b.reads(""))
		}
	})
}

// TestUnservedOwner: what is not served cannot be judged.
func TestUnservedOwner(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		cm := b.make("a/cm")
		b.make("a/x", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "t"})
		b.make("a/y", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "t"}, cm)
		b.delete("a/cm", background)
		b.api.Reset()
		b.after(24 * time.Hour)
		b.wantLeft("the next day", "a/x<t a/y<t,cm")
		if b.reads("") > 0 {
			b.Errorf("asked %d times", b.reads(""))
		}
	})
}

// TestOtherVersion: an owner may be named by a version of its kind that is not the one followed.
func TestOtherVersion(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		role := b.make("role")
		b.make("a/new", role)
		role.APIVersion = "rbac.authorization.k8s.io/v1beta1"
		b.make("a/old", role)
		b.wantLeft("with the owner", "role a/new<role a/old<role")
		if w := b.api.Writes(); len(w) > 0 {
			b.Errorf("all is well, but did %v", w)
		}
		b.delete("role", background)
		b.wantLeft("without", "")
	})
}

// TestUnfollowedOwner: an owner whose kind has no informer is read from the server, ever more rarely.
func TestUnfollowedOwner(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.make("a/x", b.secret())
		b.after(10 * time.Second)
		b.wantLeft("with its owner", "a/x<s")
		if b.reads("") > 15 {
			b.Errorf("asked %d times", b.reads(""))
		}
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: secrets, Namespace: "a", Name: "s"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		b.after(15 * time.Second)
		b.wantLeft("without", "")
	})
}

// TestReplacedOwner: one of the same name is another.
func TestReplacedOwner(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.make("a/x", b.make("a/owner"))
		b.delete("a/owner", background)
		again := b.make("a/owner")
		b.make("a/y", again)
		b.wantLeft("with another owner", "a/owner a/y<owner")
	})
}

// TestLateDependent: an object comes whose owner went while another dependent still goes.
func TestLateDependent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owner := b.make("a/owner")
		b.held("a/x", []string{"example.com/hold"}, owner)
		b.delete("a/owner", background)
		b.wantLeft("one is held", "a/x<owner!")
		b.make("a/late", owner)
		b.wantLeft("one came late", "a/x<owner!")
		b.release("a/x")
		b.wantLeft("all are free", "")
		if n := b.graph.Size(); n != 0 {
			b.Errorf("%d nodes are left", n)
		}
	})
}

// TestForeground: an owner waits for those of its dependents that block it, and theirs.
func TestForeground(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owner := b.make("a/owner")
		hold := []string{"example.com/hold"}
		middle := b.make("a/middle", blocking(owner))
		b.held("a/leaf", hold, blocking(middle))
		b.held("a/loose", hold, owner)
		other := b.make("a/other")
		b.make("a/shared", blocking(owner), other)
		b.delete("a/owner", foreground)
		b.wantLeft("the leaf is held", "a/leaf<middle! a/loose<owner! a/middle<owner! a/other a/owner! a/shared<other")
		b.make("a/late", owner)
		b.wantLeft("one came late", "a/leaf<middle! a/loose<owner! a/middle<owner! a/other a/owner! a/shared<other")
		b.release("a/leaf")
		b.wantLeft("the leaf is free", "a/loose<owner! a/other a/shared<other")
	})
}

// TestUnblocked: a dependent that stops blocking, or is disowned, lets the owner go.
func TestUnblocked(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owner := b.make("a/owner")
		b.held("a/x", []string{"example.com/hold"}, blocking(owner))
		b.held("a/y", []string{"example.com/hold"}, blocking(owner))
		b.delete("a/owner", foreground)
		for _, name := range []string{"a/x", "a/y"} {
			b.after(time.Second)
			if got := b.left(); !strings.Contains(got, "a/owner!") {
				b.Errorf("before %s is changed, the owner is gone: %s", name, got)
			}
			if name == "a/x" {
				b.change(name, owned(owner))
			} else {
				b.change(name, owned())
			}
		}
		b.wantLeft("none blocks", "a/x<owner! a/y!")
	})
}

// TestCycles: objects that own each other are deleted together.
func TestCycles(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{background, foreground} {
		inBubble(t, nil, func(b *bench) {
			first := b.make("a/1")
			last := first
			for _, name := range []string{"a/2", "a/3"} {
				last = b.make(name, blocking(last))
			}
			b.change("a/1", owned(blocking(last)))
			b.wantLeft("a ring", "a/1<3 a/2<1 a/3<2")
			b.delete("a/2", policy)
			b.after(10 * time.Second)
			b.wantLeft(string(policy), "")
		})
	}
}

// TestOrphan: dependents are kept, without the reference; a patch that fails is tried again.
func TestOrphan(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Patch, Name: "x", Err: apierrors.NewInternalError(fmt.Errorf("down")), Times: 2})
		owner, other := b.make("a/owner"), b.make("a/other")
		b.make("a/x", blocking(owner))
		b.make("a/y", owner, other)
		b.delete("a/owner", orphan)
		b.wantLeft("orphaned", "a/other a/x a/y<other")
		want := []string{"patch configmaps a/x", "patch configmaps a/y", "patch configmaps a/x",
			"patch configmaps a/x", "patch configmaps a/owner"}
		if got := b.actions(); !slices.Equal(got, want) {
			b.Errorf("did %q, want %q", got, want)
		}
	})
}

// TestRaces: others write between the collector's look and its deletion.
func TestRaces(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bench) func(informer.Object)
		want   string
	}{
		"a label":  {func(*bench) func(informer.Object) { return labelled }, "a/other"},
		"an owner": {func(b *bench) func(informer.Object) { return owned(refTo(b.get("a/other"))) }, "a/other a/x<other"},
		"none":     {func(*bench) func(informer.Object) { return owned() }, "a/other a/x"},
	} {
		t.Run(name, func(t *testing.T) {
			raced := false
			inBubble(t, func(b *bench, r faults.Request) error {
				if r.Verb != faults.Delete || r.Target.Name != "x" || raced {
					return nil
				}
				raced = true
				b.change("a/x", tt.change(b))
				return nil
			}, func(b *bench) {
				b.make("a/other")
				b.make("a/x", b.make("a/owner"))
				b.delete("a/owner", background)
				b.wantLeft("after the race", tt.want)
			})
		})
	}
}

// TestReplacedDependent: what was to be deleted is another object by now.
func TestReplacedDependent(t *testing.T) {
	raced := false
	inBubble(t, func(b *bench, r faults.Request) error {
		if r.Verb != faults.Delete || r.Target.Name != "x" || raced {
			return nil
		}
		raced = true
		b.swap("a/x")
		return nil
	}, func(b *bench) {
		b.make("a/x", b.make("a/owner"))
		b.delete("a/owner", background)
		b.wantLeft("another x", "a/x")
	})
}

// unsupported is the answer to a strategic merge patch of a custom resource.
func unsupported() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType}}
}

// TestPatches: kinds without strategic merge, and finalizers that others change at the same time.
func TestPatches(t *testing.T) {
	inBubble(t, func(_ *bench, r faults.Request) error {
		if r.Verb == faults.Patch && strings.Contains(string(r.Patch), "$patch") {
			return unsupported()
		}
		return nil
	}, func(b *bench) {
		b.api.Inject(faults.Fault{
			Verb: faults.Patch, Name: "owner", Err: apierrors.NewConflict(configMaps.GroupResource(), "owner", fmt.Errorf("late")), Times: 2,
		})
		owner, other := b.make("a/owner"), b.make("a/other")
		b.make("a/x", owner, other)
		b.make("a/y", owner)
		began := time.Now()
		b.delete("a/owner", orphan)
		if got := b.left(); got != "a/other a/x<other a/y" || time.Since(began) > 0 {
			b.Errorf("after %v: %s", time.Since(began), got)
		}
	})
}

// TestExistingFinalizers: a dependent is deleted by the policy that its own finalizers ask for.
func TestExistingFinalizers(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owner := b.make("a/owner")
		keeps := b.held("a/keeps", []string{metav1.FinalizerOrphanDependents}, owner)
		b.make("a/kept", keeps)
		waits := b.held("a/waits", []string{metav1.FinalizerDeleteDependents}, owner)
		b.held("a/held", []string{"example.com/hold"}, blocking(waits))
		b.delete("a/owner", background)
		b.wantLeft("by their own policies", "a/held<waits! a/kept a/waits<owner!")
	})
}
