package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// to returns a change to a copy of obj.
func to(obj *corev1.ConfigMap) registry.Change {
	return func(context.Context, registry.Object) (registry.Object, error) { return obj.DeepCopy(), nil }
}

// fieldsOf returns the fields that a refusal names.
func fieldsOf(err error) string {
	var refused *registry.Error
	if !errors.Is(err, registry.ErrInvalid) || !errors.As(err, &refused) {
		return "no refusal"
	}
	var all []string
	for _, e := range refused.Fields {
		all = append(all, e.Error())
	}
	return strings.Join(all, "; ")
}

// TestCreatingUpdate: where a kind or a request allows it, an update creates a missing object; the UID of a
// former one is then a conflict, and a version is ignored.
func TestCreatingUpdate(t *testing.T) {
	obj := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
		change(o)
		return o
	}
	same := func(*corev1.ConfigMap) {}
	versioned := func(o *corev1.ConfigMap) { o.ResourceVersion = "5" }
	refusal := errors.New("not this one")
	for name, c := range map[string]struct {
		rules   registry.Rules[*corev1.ConfigMap]
		change  func(*corev1.ConfigMap)
		options registry.UpdateOptions
		err     error
		says    string
		version string // of a dry run's result
	}{
		"by the kind":                  {rules: registry.Rules[*corev1.ConfigMap]{CreateOnUpdate: true}, change: same},
		"by the request":               {change: same, options: registry.UpdateOptions{Create: true}},
		"by neither":                   {change: same, err: registry.ErrNotFound},
		"of a subresource":             {change: same, options: registry.UpdateOptions{Create: true, View: "status"}, err: registry.ErrNotFound},
		"with a version":               {change: versioned, options: registry.UpdateOptions{Create: true}},
		"with a version, in a dry run": {change: versioned, options: registry.UpdateOptions{Create: true, DryRun: true}, version: "5"},
		"with no version": {change: func(o *corev1.ConfigMap) { o.ResourceVersion = "x" }, options: registry.UpdateOptions{Create: true}, err: registry.ErrInvalid,
			says: `metadata.resourceVersion: Invalid value: "x": strconv.ParseUint`},
		"with a UID": {change: func(o *corev1.ConfigMap) { o.UID = "u" }, options: registry.UpdateOptions{Create: true}, err: registry.ErrConflict,
			says: "Code: 4, Key: /registry/configmaps/a/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: "},
		"refused": {change: same, options: registry.UpdateOptions{Create: true, Admit: func(_ context.Context, obj, old registry.Object) error {
			if obj == nil || old != nil {
				return nil
			}
			return refusal
		}}, err: refusal},
	} {
		res := openKind(t, memory.New(memory.Options{}), colors(c.rules).Kind(), registry.Options{})
		item, created, err := res.Update(t.Context(), "a", "x", to(obj(c.change)), c.options)
		if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if err == nil && (!created || item.Object.GetUID() == "" || c.options.DryRun && item.Object.GetResourceVersion() != c.version) {
			t.Errorf("%s: %v, created %v", name, item.Object, created)
		}
		if there := c.err == nil && !c.options.DryRun; (res.Len() == 1) != there {
			t.Errorf("%s: %d are there", name, res.Len())
		}
	}
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{})
	failing := func(context.Context, registry.Object) (registry.Object, error) { return nil, refusal }
	if _, _, err := res.Update(t.Context(), "a", "x", failing, registry.UpdateOptions{Create: true}); !errors.Is(err, refusal) {
		t.Errorf("a change that fails: %v", err)
	}
	create(t, res, "a", "x", nil)
	if _, created, err := res.Update(t.Context(), "a", "x", to(obj(same)), registry.UpdateOptions{Create: true}); err != nil || created {
		t.Errorf("of an existing object: created %v, %v", created, err)
	}
}

// TestMetadataStays: an update changes neither what the server set nor the marks of a deletion in progress.
func TestMetadataStays(t *testing.T) {
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: graceful()}, []string{"example.com/hold"}, func(t *testing.T, s *shelf) {
		for range 2 {
			before := s.there()
			time.Sleep(time.Minute)
			s.change(func(obj *corev1.ConfigMap) {
				obj.UID, obj.CreationTimestamp, obj.Generation = "", metav1.Now(), 99
				obj.SetSelfLink("/x")
				obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = nil, nil
				obj.Data = map[string]string{"at": time.Now().String()}
			})
			after := s.there()
			if after.ResourceVersion == before.ResourceVersion || after.UID != before.UID || !after.CreationTimestamp.Equal(&before.CreationTimestamp) ||
				after.Generation != before.Generation || after.GetSelfLink() != "" || !after.DeletionTimestamp.Equal(before.DeletionTimestamp) {
				t.Errorf("%+v became %+v", before.ObjectMeta, after.ObjectMeta)
			}
			if (after.DeletionGracePeriodSeconds == nil) != (before.DeletionGracePeriodSeconds == nil) {
				t.Errorf("grace %v became %v", before.DeletionGracePeriodSeconds, after.DeletionGracePeriodSeconds)
			}
			s.delete(600)
		}
		// A client may set them in a new object, to no avail.
		zero, now := int64(0), metav1.Now()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "new", UID: "u", DeletionTimestamp: &now, DeletionGracePeriodSeconds: &zero,
			CreationTimestamp: metav1.NewTime(time.Unix(1, 0)), ResourceVersion: "0",
		}}
		obj.SetSelfLink("/x")
		item, err := s.res.Create(t.Context(), obj, registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := item.Object
		if got.GetUID() == "u" || got.GetSelfLink() != "" || got.GetDeletionTimestamp() != nil || got.GetDeletionGracePeriodSeconds() != nil || time.Since(got.GetCreationTimestamp().Time) > time.Second {
			t.Errorf("new: %+v", got)
		}
	})
}

// TestFinalizersOfGroups: Kubernetes' own groups require a domain in finalizers unless the kind says otherwise.
func TestFinalizersOfGroups(t *testing.T) {
	for _, c := range []struct {
		group string
		any   bool
		fine  bool
	}{
		{group: ""}, {group: "apps"}, {group: "rbac.authorization.k8s.io"}, {group: "sub.k8s.io"}, {group: "example.com", fine: true},
		{group: "", any: true, fine: true}, {group: "example.k8s.io.com", fine: true},
	} {
		k := colors(registry.Rules[*corev1.ConfigMap]{AnyFinalizer: c.any})
		k.GroupVersion = schema.GroupVersion{Group: c.group, Version: "v1"}
		reg := openKinds(t, memory.New(memory.Options{}), k.Kind())
		res, _ := reg.Resource(k.Kind().GroupResource())
		want := ""
		if !c.fine {
			want = `metadata.finalizers[1]: Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified`
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Finalizers: []string{"kubernetes", "hold", "foregroundDeletion"}}}
		_, err := res.Create(t.Context(), obj.DeepCopy(), registry.CreateOptions{})
		if want == "" && err != nil || want != "" && fieldsOf(err) != want {
			t.Errorf("create in %q: %v", c.group, err)
		}
		_, _ = res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}, registry.CreateOptions{})
		_, _, err = res.Update(t.Context(), "a", "x", to(obj), registry.UpdateOptions{})
		if want == "" && err != nil || want != "" && fieldsOf(err) != want {
			t.Errorf("update in %q: %v", c.group, err)
		}
	}
}

// TestRefusedFields: each invalid field is reported once: metadata by the registry, the rest by the rules of
// the kind, of the version in which the object was sent, or of the subresource.
func TestRefusedFields(t *testing.T) {
	const ruled, unruled = "ruled", "unruled"
	says := func(text string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath(text), "x", "bad")}
	}
	kind := func(strict bool) registry.Kind {
		k := colors(registry.Rules[*corev1.ConfigMap]{
			Validate: func(c *corev1.ConfigMap) field.ErrorList {
				if c.Data["bad"] == "" {
					return nil
				}
				return says("kind")
			},
			ValidateUpdate: func(c, old *corev1.ConfigMap) field.ErrorList {
				if c.Data["bad"] == "" || old.Name != c.Name {
					return nil
				}
				return says("kindUpdate")
			},
		})
		k.Sub.Views = map[string]registry.View[*corev1.ConfigMap]{"status": {
			PrepareUpdate:  func(_ context.Context, c, old *corev1.ConfigMap) { c.Labels = old.Labels },
			ValidateUpdate: func(*corev1.ConfigMap, *corev1.ConfigMap) field.ErrorList { return says("viewUpdate") },
		}, "plain": {}}
		if !strict {
			k.Rules.ValidateName = func(name string, prefix bool) []string {
				if strings.HasPrefix(name, "no") {
					return []string{"not this, prefix " + map[bool]string{true: "yes", false: "no"}[prefix]}
				}
				return nil
			}
		}
		out := k.Kind()
		rules := out.Rules
		rules.Validate = func(registry.Object) field.ErrorList { return says("version") }
		rules.ValidateUpdate = func(_, _ registry.Object) field.ErrorList { return says("versionUpdate") }
		same := func(_ context.Context, obj registry.Object) (registry.Object, error) { return obj, nil }
		for version, rules := range map[string]*registry.Rules[registry.Object]{ruled: &rules, unruled: nil} {
			out.Also = append(out.Also, registry.Version{
				Names: out.Names, GroupVersion: schema.GroupVersion{Version: version}, New: out.New, NewList: out.NewList,
				FromStored: same, ToStored: same, Rules: rules,
			})
		}
		return out
	}
	in := func(res *registry.Resource, version string) *registry.Resource {
		all := res.Versions()
		return all[slices.IndexFunc(all, func(v *registry.Resource) bool { return version == "" || v.GroupVersion.Version == version })]
	}
	bad, labelled := map[string]string{"bad": "yes"}, map[string]string{"l": "?"}
	const label = `metadata.labels: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters`
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "a", Name: name} }
	for name, c := range map[string]struct {
		lenient bool
		obj     corev1.ConfigMap
		via     string
		want    []string
	}{
		"name":                 {obj: corev1.ConfigMap{ObjectMeta: meta("x_y")}, want: []string{`metadata.name: Invalid value: "x_y": a lowercase RFC 1123 subdomain`}},
		"name of the kind":     {lenient: true, obj: corev1.ConfigMap{ObjectMeta: meta("x_Y")}},
		"refused by the kind":  {lenient: true, obj: corev1.ConfigMap{ObjectMeta: meta("no")}, want: []string{`metadata.name: Invalid value: "no": not this, prefix no`}},
		"no part of a path":    {lenient: true, obj: corev1.ConfigMap{ObjectMeta: meta("x/y")}, want: []string{`metadata.name: Invalid value: "x/y": may not contain '/'`}},
		"generated":            {lenient: true, obj: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: "no-"}}, want: []string{`metadata.generateName: Invalid value: "no-": not this, prefix yes`, "metadata.name: Invalid value"}},
		"no namespace":         {obj: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, want: []string{"metadata.namespace: Required value"}},
		"kind":                 {obj: corev1.ConfigMap{ObjectMeta: meta("x"), Data: bad}, want: []string{"kind: Invalid"}},
		"version":              {obj: corev1.ConfigMap{ObjectMeta: meta("x"), Data: bad}, via: ruled, want: []string{"version: Invalid"}},
		"version without rule": {obj: corev1.ConfigMap{ObjectMeta: meta("x"), Data: bad}, via: unruled, want: []string{"kind: Invalid"}},
		"all":                  {obj: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", Labels: labelled, Finalizers: []string{"f"}}, Data: bad}, want: []string{label, "metadata.finalizers[0]", "kind: Invalid"}},
	} {
		res := openKind(t, memory.New(memory.Options{}), kind(!c.lenient), registry.Options{})
		_, err := in(res, c.via).Create(t.Context(), c.obj.DeepCopy(), registry.CreateOptions{})
		checkFields(t, "create, "+name, err, c.want)
	}
	named := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: meta("x")}
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		change  func(*corev1.ConfigMap)
		options registry.UpdateOptions
		via     string
		want    []string
	}{
		"kind":                 {change: func(c *corev1.ConfigMap) { c.Data = bad }, want: []string{"kindUpdate: Invalid"}},
		"version":              {change: func(c *corev1.ConfigMap) { c.Data = bad }, via: ruled, want: []string{"versionUpdate: Invalid"}},
		"version without rule": {change: func(c *corev1.ConfigMap) { c.Data = bad }, via: unruled, want: []string{"kindUpdate: Invalid"}},
		"subresource":          {change: func(c *corev1.ConfigMap) { c.Data = bad; c.Labels = labelled }, options: registry.UpdateOptions{View: "status"}, via: ruled, want: []string{"viewUpdate: Invalid"}},
		"without rule":         {change: func(c *corev1.ConfigMap) { c.Data = bad }, options: registry.UpdateOptions{View: "plain"}},
		"label":                {change: func(c *corev1.ConfigMap) { c.Labels = labelled }, want: []string{label}},
		"name":                 {change: func(c *corev1.ConfigMap) { c.Name = "y" }, want: []string{`metadata.name: Invalid value: "y": field is immutable`}},
		"label and name":       {change: func(c *corev1.ConfigMap) { c.Labels, c.Name = labelled, "y" }, want: []string{label, `metadata.name: Invalid value: "y": field is immutable`}},
		"UID of a patch":       {change: func(c *corev1.ConfigMap) { c.UID = "u" }, options: registry.UpdateOptions{Patch: true}, want: []string{`metadata.uid: Invalid value: "u": field is immutable`}},
		"finalizer":            {change: func(c *corev1.ConfigMap) { c.Finalizers = []string{"f"} }, want: []string{"metadata.finalizers[0]"}},
		"raw":                  {change: func(c *corev1.ConfigMap) { c.Data = bad; c.Finalizers = []string{"f"} }, options: registry.UpdateOptions{Raw: true}},
	} {
		res := openKind(t, memory.New(memory.Options{}), kind(true), registry.Options{})
		create(t, res, "a", "x", nil)
		_, _, err := in(res, c.via).Update(t.Context(), "a", "x", to(named(c.change)), c.options)
		checkFields(t, "update, "+name, err, c.want)
	}
}

// checkFields checks that an error reports exactly these fields.
func checkFields(t *testing.T, name string, err error, want []string) {
	t.Helper()
	if len(want) == 0 {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	got := strings.Split(fieldsOf(err), "; ")
	if len(got) != len(want) {
		t.Errorf("%s: %d fields, want %d: %v", name, len(got), len(want), err)
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s: %s, want %s", name, got[i], want[i])
		}
	}
}

// TestConditionalUpdate: a kind may refuse updates without a version.
func TestConditionalUpdate(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{ConditionalUpdate: true}).Kind(), registry.Options{})
	create(t, res, "a", "x", nil)
	item, err := res.Get(t.Context(), "a", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"": "metadata.resourceVersion: Invalid value: 0: must be specified for an update", "0": "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
		"x": `metadata.resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`, item.Object.GetResourceVersion(): "no refusal",
	} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", ResourceVersion: version}, Data: map[string]string{"new": "yes"}}
		_, _, err := res.Update(t.Context(), "a", "x", to(obj), registry.UpdateOptions{})
		if got := fieldsOf(err); got != want || want == "no refusal" && err != nil {
			t.Errorf("version %q: %v", version, err)
		}
		if refused := (*registry.Error)(nil); version == "" && errors.As(err, &refused) && refused.Kind != "configmaps" {
			t.Errorf("it is of a %q", refused.Kind)
		}
	}
}

// scripted is a store whose calls can be replaced one by one.
type scripted struct {
	*memory.Store
	create   func(ctx context.Context, key string, value []byte) (int64, error)
	revision func(ctx context.Context) (int64, error)
	stale    func(key string) (bool, error)
}

func (s *scripted) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if s.create != nil {
		return s.create(ctx, key, value)
	}
	return s.Store.Create(ctx, key, value)
}

func (s *scripted) Revision(ctx context.Context) (int64, error) {
	if s.revision != nil {
		return s.revision(ctx)
	}
	return s.Store.Revision(ctx)
}

func (s *scripted) Stale(_ context.Context, key string) (bool, error) {
	if s.stale != nil {
		return s.stale(key)
	}
	return false, nil
}

// TestOvertaken: a writer gets the object it wrote, even if another writer changed it before the cache showed
// it.
func TestOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{Store: memory.New(memory.Options{})}
		store.create = func(ctx context.Context, key string, value []byte) (int64, error) {
			at, err := store.Store.Create(ctx, key, value)
			if err != nil {
				return 0, err
			}
			other := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"ns","name":"a"},"data":{"v":"theirs"}}`)
			if _, err := store.Store.Update(ctx, key, other, at); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			return at, nil
		}
		res := open(t, store, registry.Options{})
		item, err := res.Create(t.Context(), config("a", "ours"), registry.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now, err := res.Get(t.Context(), "ns", "a", "")
		if err != nil || now.Revision != item.Revision+1 || now.Object.(*corev1.ConfigMap).Data["v"] != "theirs" {
			t.Errorf("there is %v, %v", now, err)
		}
		if got := item.Object.(*corev1.ConfigMap); got.Data["v"] != "ours" || got.Name != "a" || got.ResourceVersion == now.Object.GetResourceVersion() {
			t.Errorf("created: %v", got)
		}
	})
}

// TestStoreFails: a failure of the store fails the request, and nothing is stored.
func TestStoreFails(t *testing.T) {
	broken := errors.New("broken")
	store := &scripted{Store: memory.New(memory.Options{})}
	res := open(t, store, registry.Options{})
	create(t, res, "ns", "a", nil)
	before, err := res.Get(t.Context(), "ns", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	same := func(_ context.Context, current registry.Object) (registry.Object, error) {
		return current.DeepCopyObject().(registry.Object), nil
	}
	for is, want := range map[error]error{broken: broken, storage.ErrNotFound: nil} {
		store.stale = func(string) (bool, error) { return false, is }
		if _, _, err := res.Update(t.Context(), "ns", "a", same, registry.UpdateOptions{}); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("an update whose record cannot be read, %v: %v", is, err)
		}
	}
	store.stale = nil
	store.revision = func(context.Context) (int64, error) { return 0, broken }
	uid := types.UID("other")
	_, listing := res.List(t.Context(), registry.ListOptions{})
	_, getting := res.Get(t.Context(), "ns", "a", "")
	_, _, updating := res.Update(t.Context(), "ns", "none", same, registry.UpdateOptions{})
	_, _, refused := res.Update(t.Context(), "ns", "a", same, registry.UpdateOptions{})
	_, _, deleting := res.Delete(t.Context(), "ns", "none", registry.DeleteOptions{})
	_, _, conflicting := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}})
	_, _, blindly := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{DeleteOptions: metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}})
	_, trying := res.Create(t.Context(), config("b", ""), registry.CreateOptions{DryRun: true})
	for what, err := range map[string]error{"list": listing, "get": getting, "update": updating, "update of nothing": refused, "delete": deleting, "delete under a condition": conflicting,
		"delete of an unreadable object": blindly, "create in a dry run": trying} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	store.revision = nil
	if after, err := res.Get(t.Context(), "ns", "a", ""); err != nil || after.Revision != before.Revision || res.Len() != 1 {
		t.Errorf("after that: %v, %v", after, err)
	}
}

// TestWriteAfterContext: a write is not stored if its client is gone by then.
func TestWriteAfterContext(t *testing.T) {
	res := open(t, memory.New(memory.Options{}), registry.Options{})
	create(t, res, "ns", "a", nil)
	for name, write := range map[string]func(context.Context, context.CancelFunc) error{
		"create": func(ctx context.Context, _ context.CancelFunc) error {
			_, err := res.Create(ctx, config("b", ""), registry.CreateOptions{})
			return err
		},
		"update": func(ctx context.Context, end context.CancelFunc) error {
			_, _, err := res.Update(ctx, "ns", "a", set("2", ""), registry.UpdateOptions{})
			end()
			return err
		},
		"update, while it is admitted": func(_ context.Context, _ context.CancelFunc) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, _, err := res.Update(ctx, "ns", "a", set("2", ""), registry.UpdateOptions{
				Admit: func(context.Context, registry.Object, registry.Object) error { cancel(); return nil },
			})
			return err
		},
		"delete": func(ctx context.Context, _ context.CancelFunc) error {
			_, _, err := res.Delete(ctx, "ns", "a", registry.DeleteOptions{})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := write(ctx, cancel); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if item, err := res.Get(t.Context(), "ns", "a", ""); err != nil || item.Object.(*corev1.ConfigMap).Data["v"] == "2" || res.Len() != 1 {
			t.Errorf("after %s: %v, %v", name, item, err)
		}
	}
}

// TestDeletionGuard: a protected object is refused by name, whether it exists or not, and before anything
// else.
func TestDeletionGuard(t *testing.T) {
	refusal := errors.New("it stays")
	res := openKind(t, memory.New(memory.Options{}), ruled(registry.Rules[*corev1.ConfigMap]{Deletion: registry.Deletion[*corev1.ConfigMap]{
		Guard: func(name string) error {
			if name == "kept" || name == "none" {
				return refusal
			}
			return nil
		},
	}}), registry.Options{})
	create(t, res, "ns", "kept", nil)
	create(t, res, "ns", "other", nil)
	for name, want := range map[string]error{"kept": refusal, "none": refusal, "other": nil, "missing": registry.ErrNotFound} {
		_, gone, err := res.Delete(t.Context(), "ns", name, registry.DeleteOptions{})
		if !errors.Is(err, want) || gone != (want == nil) {
			t.Errorf("%s: gone %v, %v", name, gone, err)
		}
	}
	if res.Len() != 1 {
		t.Errorf("%d are left", res.Len())
	}
}

// TestHeldByBoth: while the kind holds an object, no grace period is shown; when only finalizers hold it, it
// has none left.
func TestHeldByBoth(t *testing.T) {
	held := registry.Deletion[*corev1.ConfigMap]{Held: func(obj *corev1.ConfigMap) bool { return obj.Data["full"] != "" }}
	withShelf(t, registry.Rules[*corev1.ConfigMap]{Deletion: held}, []string{"example.com/hold"}, func(t *testing.T, s *shelf) {
		s.change(func(obj *corev1.ConfigMap) { obj.Data = map[string]string{"full": "yes"} })
		if s.delete(unasked) {
			t.Error("removed though it is held")
		}
		if obj := s.there(); obj.DeletionTimestamp == nil || obj.DeletionGracePeriodSeconds != nil {
			t.Errorf("held: %+v", obj.ObjectMeta)
		}
		s.change(func(obj *corev1.ConfigMap) { obj.Data = nil })
		if s.delete(unasked) {
			t.Error("removed though a finalizer is left")
		}
		s.ends(0, 0)
		version := s.there().ResourceVersion
		if s.delete(unasked); s.there().ResourceVersion != version {
			t.Error("the second delete wrote it again")
		}
		s.change(func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
		s.expectGone(true)
	})
}

// TestReservationContext: the context of a reservation ends with the write, or after ReservationTime.
func TestReservationContext(t *testing.T) {
	var held context.Context
	settled := false
	res := openKind(t, memory.New(memory.Options{}), ruled(registry.Rules[*corev1.ConfigMap]{
		Effects: registry.Effects[*corev1.ConfigMap]{Reserve: func(ctx context.Context, _ registry.Reservation[*corev1.ConfigMap]) (registry.Settle, error) {
			held = ctx
			return func(ctx context.Context, o registry.Outcome) {
				settled = ctx.Err() == nil && o == registry.Written
			}, nil
		}},
	}), registry.Options{})
	create(t, res, "ns", "a", nil)
	if held == nil || held.Err() == nil || !settled {
		t.Errorf("held: %v, settled %v", held, settled)
	}
	if deadline, ok := held.Deadline(); !ok || time.Until(deadline) > registry.ReservationTime {
		t.Errorf("it ends at %v", deadline)
	}
}

// TestReservationRefused: an object whose reservation fails is not stored, and the client gets the error.
func TestReservationRefused(t *testing.T) {
	refusal := errors.New("nothing left")
	res := openKind(t, memory.New(memory.Options{}), ruled(registry.Rules[*corev1.ConfigMap]{
		Effects: registry.Effects[*corev1.ConfigMap]{Reserve: func(_ context.Context, r registry.Reservation[*corev1.ConfigMap]) (registry.Settle, error) {
			if r.Object == nil && r.Old.Data["v"] == "stay" || r.Object != nil && r.Object.Data["v"] == "more" {
				return nil, refusal
			}
			return nil, nil
		}},
	}), registry.Options{})
	item, err := res.Create(t.Context(), config("a", "stay"), registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, creating := res.Create(t.Context(), config("b", "more"), registry.CreateOptions{})
	_, _, updating := res.Update(t.Context(), "ns", "a", set("more", ""), registry.UpdateOptions{})
	_, _, deleting := res.Delete(t.Context(), "ns", "a", registry.DeleteOptions{})
	for what, err := range map[string]error{"create": creating, "update": updating, "delete": deleting} {
		if !errors.Is(err, refusal) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now, err := res.Get(t.Context(), "ns", "a", ""); err != nil || now.Revision != item.Revision || res.Len() != 1 {
		t.Errorf("after that: %v, %v", now, err)
	}
}
