package registry_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// paint creates a ConfigMap with a color and a size.
func paint(t *testing.T, res *registry.Resource, namespace, name, color, size string) int64 {
	t.Helper()
	item, err := res.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"size": size}},
		Data:       map[string]string{"color": color, "size": size},
	}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return item.Revision
}

func fieldSelector(t *testing.T, text string) fields.Selector {
	t.Helper()
	s, err := fields.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFieldSelectors: fields select as labels do, by an index where possible, and names by a direct lookup.
func TestFieldSelectors(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{})
	for n := range 1000 {
		paint(t, res, fmt.Sprintf("n%d", n/100), fmt.Sprintf("c%02d", n%100), strconv.Itoa(n%5), strconv.Itoa(n%200))
	}
	for _, test := range []struct {
		fields, labels, namespace string
		limit                     int64
		want, most                int
	}{
		{fields: "", want: 1000},
		{fields: "data.color=2", want: 200},
		{fields: "data.color==2", namespace: "n3", want: 20},
		{fields: "data.color=2", limit: 3, want: 3},
		{fields: "data.color=2,data.size=7", want: 5, most: 5},
		{fields: "data.color=2,data.size=8", want: 0, most: 5},
		{fields: "data.color=2", labels: "size=107", want: 5, most: 5},
		{fields: "data.color=2,data.size!=7", want: 195, most: 200},
		{fields: "data.color!=2", want: 800, most: 1000},
		{fields: "data.other=7", want: 0},
		{fields: "data.other=", want: 1000},
		{fields: "metadata.name=c07", want: 10, most: 1000},
		{fields: "metadata.name=c07", namespace: "n3", want: 1, most: 1},
		{fields: "metadata.name=none", namespace: "n3", want: 0},
		{fields: "metadata.name=c07,data.color=8", namespace: "n3", want: 0, most: 1},
		{fields: "metadata.name=c07,metadata.namespace=n3", want: 1, most: 1000},
		{fields: "metadata.namespace=n3", want: 100, most: 1000},
		{fields: "metadata.name!=c07", namespace: "n3", want: 99, most: 100},
		{fields: "metadata.name=not this", want: 0, most: 1000},
	} {
		var seen atomic.Int64
		o := registry.ListOptions{Limit: test.limit, Selection: registry.Selection{
			Namespace: test.namespace, Fields: countingFields{fieldSelector(t, test.fields), &seen},
		}}
		if test.labels != "" {
			o.Labels = selector(t, test.labels)
		}
		l, err := res.List(t.Context(), o)
		if err != nil || len(l.Items) != test.want {
			t.Errorf("%+v: %d objects, %v", test, len(l.Items), err)
		}
		if n := int(seen.Load()); n > test.most {
			t.Errorf("%+v: %d objects examined", test, n)
		}
	}
}

// TestClusterScoped: a cluster-scoped object is read by its name alone, has no field for the namespace and
// keeps none.
func TestClusterScoped(t *testing.T) {
	reg := openKinds(t, memory.New(memory.Options{}), sorts()...)
	res, _ := reg.Resource(namespacesResource)
	for _, name := range []string{"b", "a", "c"} {
		item, err := res.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}, registry.CreateOptions{})
		if err != nil || item.Object.GetNamespace() != "" {
			t.Errorf("create %s: %v, %v", name, item, err)
		}
	}
	var seen atomic.Int64
	one := registry.Selection{Fields: countingFields{fieldSelector(t, "metadata.name=b"), &seen}}
	if l, err := res.List(t.Context(), registry.ListOptions{Selection: one}); err != nil || strings.Join(listed(l), ",") != "b" || seen.Load() != 1 {
		t.Errorf("list by name: %v, %v, %d examined", listed(l), err, seen.Load())
	}
	if l, err := res.List(t.Context(), registry.ListOptions{Selection: registry.Selection{Fields: fieldSelector(t, "metadata.namespace=x")}}); err != nil || len(l.Items) != 0 {
		t.Errorf("list by namespace: %v, %v", listed(l), err)
	}
	if item, err := res.Get(t.Context(), "", "b", ""); err != nil || item.Object.GetName() != "b" {
		t.Errorf("get: %v, %v", item, err)
	}
}

// TestListVersions: a list is of the newest state, of any, of one at least as new, or of exactly one.
func TestListVersions(t *testing.T) { synctest.Test(t, testListVersions) }

func testListVersions(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{History: 8})
	first := paint(t, res, "a", "one", "", "")
	for i := range 10 {
		paint(t, res, "a", "x"+strconv.Itoa(i), "", "")
	}
	was := paint(t, res, "a", "y", "", "")
	now := paint(t, res, "b", "z", "", "")
	version := func(n int64) string { return strconv.FormatInt(n, 10) }
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	for _, c := range []struct {
		version string
		match   metav1.ResourceVersionMatch
		limit   int64
		items   int
		at      int64
		wait    time.Duration
		check   func(error) bool
	}{
		{version: "", items: 13, at: now},
		{version: "", limit: 5, items: 5, at: now},
		{version: "0", items: 13, at: now},
		{version: "0", limit: 5, items: 13, at: now},
		{version: "0", match: notOlder, limit: 5, items: 13, at: now},
		{version: version(was), items: 13, at: now},
		{version: version(first), items: 13, at: now},
		{version: version(was), match: notOlder, limit: 5, items: 5, at: now},
		{version: version(was), match: exact, items: 12, at: was},
		{version: version(was), match: exact, limit: 5, items: 5, at: was},
		{version: version(was), limit: 5, items: 5, at: was},
		{version: version(was), limit: 12, items: 12, at: was},
		{version: version(now), match: exact, items: 13, at: now},
		{version: version(first), match: exact, check: func(err error) bool {
			return errors.Is(err, registry.ErrExpired) && strings.Contains(err.Error(), fmt.Sprintf("too old resource version: %d (%d)", first, now-8))
		}},
		{version: "x", check: badVersion}, {version: "x", match: exact, check: badVersion}, {version: "x", match: notOlder, check: badVersion},
		{version: "-1", check: badVersion}, {version: "x", limit: 1, check: badVersion},
		{version: version(now + 5), wait: 3 * time.Second, check: tooLarge(uint64(now)+5, now)},
		{version: version(now + 5), match: exact, wait: 3 * time.Second, check: tooLarge(uint64(now)+5, now)},
		{version: version(math.MaxInt64), wait: 3 * time.Second, check: tooLarge(math.MaxInt64, now)},
		{version: "9223372036854775808", check: tooLarge(math.MaxInt64+1, now)},
		{version: "9223372036854775808", match: exact, check: tooLarge(math.MaxInt64+1, now)},
		{version: "18446744073709551616", check: badVersion},
	} {
		began := time.Now()
		l, err := res.List(t.Context(), registry.ListOptions{ResourceVersion: c.version, Match: c.match, Limit: c.limit})
		if took := time.Since(began); took != c.wait {
			t.Errorf("%+v: took %v", c, took)
		}
		switch {
		case c.check != nil:
			if err == nil || !c.check(err) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || len(l.Items) != c.items || l.Revision != c.at:
			t.Errorf("%+v: %v, %v", c, l, err)
		}
		if c.check == nil && (l.Continue != "") != (c.items == 5) {
			t.Errorf("%+v: goes on with %q", c, l.Continue)
		}
	}
	// A canceled read fails with the context's error, not because the version is too large.
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, listing := res.List(short, registry.ListOptions{ResourceVersion: version(now + 5)})
	_, getting := res.Get(short, "a", "one", version(now+5))
	_, watching := res.Watch(short, registry.Selection{}, now+5)
	for what, err := range map[string]error{"List": listing, "Get": getting, "Watch": watching} {
		if !errors.Is(err, context.DeadlineExceeded) || registry.FutureRevision(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := res.Get(t.Context(), "a", "one", "x"); !badVersion(err) {
		t.Errorf("get: %v", err)
	}
	if _, err := res.Watch(t.Context(), registry.Selection{}, now+5); !tooLarge(uint64(now)+5, now)(err) {
		t.Errorf("watch: %v", err)
	}
	if _, _, err := res.ListAndWatch(t.Context(), registry.Selection{}, "x"); !badVersion(err) {
		t.Errorf("list and watch: %v", err)
	}
	// A revision that arrives in time is waited for.
	time.AfterFunc(time.Second, func() { paint(t, res, "c", "late", "", "") })
	if l, err := res.List(t.Context(), registry.ListOptions{ResourceVersion: version(now + 1)}); err != nil || len(l.Items) != 14 {
		t.Errorf("list at a coming revision: %v, %v", l, err)
	}
}

func badVersion(err error) bool {
	return errors.Is(err, registry.ErrBadRequest) && strings.Contains(err.Error(), "invalid resource version: resourceVersion: Invalid value: ")
}

func tooLarge(asked uint64, current int64) func(error) bool {
	return func(err error) bool {
		return registry.FutureRevision(err) && err.Error() == fmt.Sprintf("Too large resource version: %d, current: %d", asked, current)
	}
}

// TestPages: a paged list is of one state; if that is gone, the error says how to continue without it.
func TestPages(t *testing.T) { synctest.Test(t, testPages) }

func testPages(t *testing.T) {
	res := openKind(t, memory.New(memory.Options{}), colors(registry.Rules[*corev1.ConfigMap]{}).Kind(), registry.Options{History: 8})
	for i := range 5 {
		paint(t, res, "a", "x"+strconv.Itoa(i), strconv.Itoa(i%2), "")
	}
	paint(t, res, "a0", "x", "0", "")
	at := paint(t, res, "b", "x", "0", "")
	list := func(o registry.ListOptions) *registry.List {
		t.Helper()
		l, err := res.List(t.Context(), o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		return l
	}
	for _, c := range []struct {
		o     registry.ListOptions
		pages string
		left  []int64 // remaining after each page, -1 if unknown
	}{
		{registry.ListOptions{Limit: 3}, "a/x0,a/x1,a/x2|a/x3,a/x4,a0/x|b/x", []int64{4, 1, -1}},
		{registry.ListOptions{Limit: 7}, "a/x0,a/x1,a/x2,a/x3,a/x4,a0/x,b/x", []int64{-1}},
		{registry.ListOptions{Limit: 2, Selection: registry.Selection{Namespace: "a"}}, "a/x0,a/x1|a/x2,a/x3|a/x4", []int64{3, 1, -1}},
		{registry.ListOptions{Limit: 5, Selection: registry.Selection{Namespace: "a"}}, "a/x0,a/x1,a/x2,a/x3,a/x4", []int64{-1}},
		{registry.ListOptions{Limit: 2, Selection: registry.Selection{Fields: fieldSelector(t, "data.color=0")}}, "a/x0,a/x2|a/x4,a0/x|b/x", []int64{-1, -1, -1}},
		{registry.ListOptions{Limit: 1, Selection: registry.Selection{Namespace: "a", Fields: fieldSelector(t, "data.color=1")}}, "a/x1|a/x3|", []int64{-1, -1, -1}},
		{registry.ListOptions{Limit: 6, Selection: registry.Selection{Fields: fieldSelector(t, ""), Labels: selector(t, "")}}, "a/x0,a/x1,a/x2,a/x3,a/x4,a0/x|b/x", []int64{1, -1}},
	} {
		var pages []string
		var left []int64
		for o := c.o; ; {
			l := list(o)
			pages = append(pages, strings.Join(listed(l), ","))
			if l.Remaining == nil {
				left = append(left, -1)
			} else {
				left = append(left, *l.Remaining)
			}
			if l.Revision != at {
				t.Errorf("%+v: at %d, want %d", o, l.Revision, at)
			}
			if o.Continue = l.Continue; o.Continue == "" {
				break
			}
		}
		if strings.Join(pages, "|") != c.pages || !slices.Equal(left, c.left) {
			t.Errorf("%+v: %v with %v behind", c.o, pages, left)
		}
	}

	token := list(registry.ListOptions{Limit: 3}).Continue
	from, revision, err := registry.DecodeContinue(token)
	if err != nil || from != "a/x2\x00" || revision != at {
		t.Errorf("token: %q at %d, %v", from, revision, err)
	}
	if _, err := res.List(t.Context(), registry.ListOptions{Continue: token, ResourceVersion: strconv.FormatInt(at, 10)}); !errors.Is(err, registry.ErrBadRequest) ||
		!strings.Contains(err.Error(), "specifying resource version is not allowed when using continue") {
		t.Errorf("going on at a version: %v", err)
	}
	if _, err := res.List(t.Context(), registry.ListOptions{Continue: "?"}); !errors.Is(err, registry.ErrBadRequest) || !strings.Contains(err.Error(), "invalid continue token") {
		t.Errorf("going on with no token: %v", err)
	}
	if l := list(registry.ListOptions{Continue: token, ResourceVersion: "0", Limit: 1}); len(l.Items) != 4 { // any version, so all
		t.Errorf("going on at any version: %v", listed(l))
	}
	future := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":999,"start":"a"}`))
	if _, err := res.List(t.Context(), registry.ListOptions{Continue: future}); !tooLarge(999, at)(err) {
		t.Errorf("going on in the future: %v", err)
	}

	for i := range 20 {
		paint(t, res, "a", "y"+strconv.Itoa(i), "", "")
	}
	_, err = res.List(t.Context(), registry.ListOptions{Continue: token, Limit: 2})
	var gone *registry.Error
	if !errors.Is(err, registry.ErrExpired) || !errors.As(err, &gone) || !strings.HasPrefix(gone.Message, "The provided continue parameter is too old") {
		t.Fatalf("continuing at a state that is gone: %v", err)
	}
	if from, revision, err := registry.DecodeContinue(gone.Continue); err != nil || from != "a/x2\x00" || revision != -1 {
		t.Errorf("token: %q at %d, %v", from, revision, err)
	}
	l := list(registry.ListOptions{Continue: gone.Continue, Limit: 3})
	if strings.Join(listed(l), ",") != "a/x3,a/x4,a/y0" || l.Revision != at+20 || l.Continue == "" {
		t.Errorf("the newest that follow: %v at %d", listed(l), l.Revision)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []registry.ListOptions{{}, {Continue: gone.Continue}, {ResourceVersion: "0"}} {
		if _, err := res.List(ended, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v with an ended context: %v", o, err)
		}
	}
}

// TestContinueTokens: tokens have upstream's format; a malformed one is refused for upstream's reason.
func TestContinueTokens(t *testing.T) {
	const version = "meta.k8s.io/v1"
	for token, want := range map[string]string{
		`{"v":"meta.k8s.io/v1","rv":7,"start":"a/b"}`:         "a/b at 7",
		`{"v":"meta.k8s.io/v1","rv":-1,"start":"/a/b\u0000"}`: "a/b\x00 at -1",
		`{"v":"meta.k8s.io/v1","rv":7,"start":"//a"}`:         "continue key is not valid: //a",
		`{"v":"meta.k8s.io/v1","rv":7,"start":"a/../b"}`:      "continue key is not valid: a/../b",
		`{"v":"meta.k8s.io/v1","rv":7,"start":"../b"}`:        "continue key is not valid: ../b",
		`{"v":"meta.k8s.io/v1","rv":7,"start":""}`:            "continue key is not valid: encoded start key empty (version " + version + ")",
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`:           "continue key is not valid: incorrect encoded start resourceVersion (version " + version + ")",
		`{"v":"v1","rv":7,"start":"a"}`:                       "continue key is not valid: server does not recognize this encoded version v1",
		`[]`:                                                  "continue key is not valid: json: cannot unmarshal",
	} {
		from, revision, err := registry.DecodeContinue(base64.RawURLEncoding.EncodeToString([]byte(token)))
		got := fmt.Sprintf("%s at %d", from, revision)
		if err != nil {
			got = err.Error()
			if from != "" || revision != 0 {
				t.Errorf("%s: %q at %d with an error", token, from, revision)
			}
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", token, got, want)
		}
	}
	if from, revision, err := registry.DecodeContinue("!"); err == nil || !strings.HasPrefix(err.Error(), "continue key is not valid: illegal base64") || from != "" || revision != 0 {
		t.Errorf("no base64: %q, %d, %v", from, revision, err)
	}
}

// TestIdentifiers: UIDs are of version 4, seeded ones the same in each run, and generated names fit.
func TestIdentifiers(t *testing.T) {
	key := registry.ObjectKey{Resource: configMapsResource, Namespace: "a", Name: "x"}
	others := map[registry.ObjectKey]bool{
		{Resource: namespacesResource, Namespace: "a", Name: "x"}: true,
		{Resource: configMapsResource, Namespace: "b", Name: "x"}: true,
		{Resource: configMapsResource, Namespace: "a", Name: "y"}: true,
	}
	for name, ids := range map[string]registry.Identifiers{"random": registry.Random(), "seeded": registry.Seeded(7)} {
		seen := map[string]bool{}
		for range 50 {
			for k := range maps.Keys(others) {
				seen[string(ids.UID(k))] = true
			}
			uid := string(ids.UID(key))
			seen[uid] = true
			if len(uid) != 36 || uid[14] != '4' || !strings.ContainsRune("89ab", rune(uid[19])) || strings.Trim(uid, "0123456789abcdef-") != "" {
				t.Errorf("%s: UID %s", name, uid)
			}
			suffix := ids.Suffix("configmaps", "a", "x-")
			seen[suffix] = true
			if len(suffix) != 5 || strings.Trim(suffix, "bcdfghjklmnpqrstvwxz2456789") != "" {
				t.Errorf("%s: suffix %s", name, suffix)
			}
		}
		if len(seen) != 250 {
			t.Errorf("%s: %d different ones of 250", name, len(seen))
		}
	}
	// The results for a seed stay the same from release to release: tests rely on them.
	golden := registry.Seeded(7)
	var made []string
	for range 3 {
		made = append(made, string(golden.UID(key)), golden.Suffix("configmaps", "a", "x-"))
	}
	if want := []string{"f4cf50ee-f824-48f9-8397-2a8b15953278", "z2djj", "ddd7f07d-2017-43a3-abea-2cd895a4c785", "z9jbv", "ae0e6fd8-b6f9-462a-b8ec-64d791fd0623", "vvsqz"}; !slices.Equal(made, want) {
		t.Errorf("made: %q", made)
	}
	one, two, other := registry.Seeded(7), registry.Seeded(7), registry.Seeded(8)
	_, _ = one.UID(registry.ObjectKey{Name: "unrelated"}), one.Suffix("r", "n", "unrelated")
	if one.UID(key) != two.UID(key) || one.UID(key) == other.UID(key) || one.Suffix("r", "n", "b") != two.Suffix("r", "n", "b") ||
		one.Suffix("r", "n", "b") == other.Suffix("r", "n", "b") || two.Suffix("r", "n", "c") == two.Suffix("r", "m", "c") || two.Suffix("r", "n", "d") == two.Suffix("s", "n", "d") {
		t.Error("identifiers do not follow from the seed, what they are for and how many there were")
	}

	res := open(t, memory.New(memory.Options{}), registry.Options{})
	for base, want := range map[string]string{"x-": "x-", strings.Repeat("x", 58): strings.Repeat("x", 58), strings.Repeat("x", 59): strings.Repeat("x", 58)} {
		item, err := res.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: base}}, registry.CreateOptions{})
		if err != nil || len(item.Object.GetName()) != len(want)+5 || !strings.HasPrefix(item.Object.GetName(), want) {
			t.Errorf("a name after %q: %v, %v", base, item, err)
		}
	}
}

// lastSuffix returns the same suffix a number of times, then another.
type lastSuffix struct {
	registry.Identifiers
	asked, same int
}

func (l *lastSuffix) Suffix(string, string, string) string {
	if l.asked++; l.asked <= l.same {
		return "first"
	}
	return "other"
}

// TestTakenNames: if a generated name is taken, another is generated, eight times in all.
func TestTakenNames(t *testing.T) {
	for same, free := range map[int]bool{1: true, 2: true, 8: true, 9: false} {
		ids := &lastSuffix{Identifiers: registry.Random(), same: same}
		res := open(t, memory.New(memory.Options{}), registry.Options{Identifiers: ids})
		create := func() (string, error) {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", GenerateName: "x-"}}
			item, err := res.Create(t.Context(), obj, registry.CreateOptions{})
			if err != nil {
				return "", err
			}
			return item.Object.GetName(), nil
		}
		if name, err := create(); name != "x-first" {
			t.Errorf("the first: %s, %v", name, err)
		}
		name, err := create()
		if free && name != "x-other" || !free && (!errors.Is(err, registry.ErrNameExhausted) || ids.asked != 9) {
			t.Errorf("with %d of one: %s, %v, asked %d times", same, name, err, ids.asked)
		}
	}
}
