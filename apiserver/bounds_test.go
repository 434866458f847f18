package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/registry/codec"
)

// allocated is how many bytes f allocates, with whatever else runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAliases: what aliases expand to is bounded as what is written out is.
func TestAliases(t *testing.T) {
	config := serve(t)
	laughs := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: &x " + strings.Repeat("x", 150<<10) +
		"\ny: [" + strings.Repeat("*x,", 50<<10) + "]\n"
	const want = `"message":"Request entity too large: YAML is too large: its aliases expand to more than 3145728 bytes;`
	const asYAML = "application/yaml"
	for _, c := range []struct{ method, path, form string }{
		{http.MethodPost, "/api/v1/namespaces/default/configmaps", asYAML},
		{http.MethodPut, "/api/v1/namespaces/default/configmaps/a", asYAML},
		{http.MethodDelete, "/api/v1/namespaces/default/configmaps/a", asYAML},
		{http.MethodPost, "/api/v1/namespaces/default/pods/a/binding", asYAML},
		{http.MethodPatch, "/api/v1/namespaces/default/configmaps/a?fieldManager=me", applyYAML},
		{http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/a/scale?fieldManager=me", applyYAML},
	} {
		var code int
		var body string
		n := allocated(func() { code, _, body = do(t, config, c.method, c.path, c.form, laughs) })
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(body, want) || n > 64<<20 {
			t.Errorf("%s %s: %d %.300s, %d bytes allocated", c.method, c.path, code, body, n)
		}
	}
	few := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {a: b}, annotations: *l}\n"
	if code, _, body := do(t, config, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/yaml", few); code != 201 || !strings.Contains(body, `"annotations":{"a":"b"}`) {
		t.Errorf("%d %s", code, body)
	}
	small := serveWith(t, apiserver.Options{MaxBody: 1000})
	if code, _, body := do(t, small, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/yaml", "a: &a ["+strings.Repeat("1,", 100)+"]\nb: [*a,*a,*a,*a,*a,*a,*a]"); code != 413 || !strings.Contains(body, "more than 1000 bytes") {
		t.Errorf("%d %s", code, body)
	}
}

// ownerList is the JSON of n owner references, of which each stands there twice.
func ownerList(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"Pod","name":"p","uid":"%d"}`, i%((n+1)/2))
	}
	return b.String()
}

// TestOnce: references that stand there twice are found in one pass, and differ by every field.
func TestOnce(t *testing.T) {
	yes, no := true, false
	also, not := true, false
	refs := []metav1.OwnerReference{
		{UID: "1"}, {UID: "1", Name: "a"}, {UID: "1", Kind: "a"}, {UID: "1", APIVersion: "a"},
		{UID: "1", Controller: &yes}, {UID: "1", Controller: &no}, {UID: "1", BlockOwnerDeletion: &yes}, {UID: "1", BlockOwnerDeletion: &no}, {UID: "2"},
	}
	twice := []metav1.OwnerReference{{UID: "1", BlockOwnerDeletion: &also}, {UID: "1", Controller: &not}, {UID: "2"}}
	first, again, looks := apiserver.Once(slices.Concat(refs, twice, twice))
	if !reflect.DeepEqual(first, refs) || !reflect.DeepEqual(again, slices.Concat(twice, twice)) || looks != len(refs)+2*len(twice) {
		t.Errorf("%v, %v, %d looks", first, again, looks)
	}
}

// TestManyOwners: the warning of many stays short.
func TestManyOwners(t *testing.T) {
	config := serve(t)
	const n = 40000
	code, header, body := do(t, config, http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json",
		`{"metadata":{"name":"a","ownerReferences":[`+ownerList(n)+`]}}`)
	if code != http.StatusCreated || strings.Count(body, `"uid":`) != n/2+1 {
		t.Errorf("%d: %d references are left", code, strings.Count(body, `"uid":`))
	}
	const want = `299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your re`
	if got := header.Get("Warning"); !strings.HasPrefix(got, want) || len(got) > 300 {
		t.Errorf("%d bytes: %.400s", len(got), got)
	}
}

// TestWarnings: many warnings are cut as upstream's are.
func TestWarnings(t *testing.T) {
	config := serve(t)
	post := func(n, length int) []string {
		var fields strings.Builder
		for i := range n {
			fmt.Fprintf(&fields, `,"%s%02d":1`, strings.Repeat("x", length-2), i)
		}
		code, header, body := do(t, config, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", "application/json", `{"metadata":{"name":"a"}`+fields.String()+`}`)
		if code != http.StatusCreated {
			t.Errorf("%d %s", code, body)
		}
		return header.Values("Warning")
	}
	for _, c := range []struct{ n, length, want, longest int }{
		{4, 1000, 4, 1000 + 16}, // 4064 runes
		{5, 1000, 5, 256},       // cut short
		{17, 1000, 16, 256},     // and 16 of these are enough
		{100, 24, 100, 40},      // 4000 runes, short as they are
	} {
		got := post(c.n, c.length)
		longest := 0
		for _, w := range got {
			text, err := strconv.Unquote(strings.TrimPrefix(w, "299 - "))
			if err != nil {
				text = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(w, `299 - "`), `"`), `\"`, `"`)
			}
			longest = max(longest, len(text))
		}
		if len(got) != c.want || longest != c.longest {
			t.Errorf("%d of %d: %d warnings, the longest of %d", c.n, c.length, len(got), longest)
		}
	}
}

// elements is n elements of a list.
func elements(e string, n int) string { return strings.TrimSuffix(strings.Repeat(e+",", n), ",") }

// TestSwelling: what takes little on the wire and very much in memory is refused before it is decoded.
func TestSwelling(t *testing.T) {
	config := serve(t)
	const path, protobuf, n = "/api/v1/namespaces/default/pods", "application/vnd.kubernetes.protobuf", 500_000
	message := func(field byte, payload []byte) []byte {
		return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(payload))), payload...)
	}
	wire, err := codec.Envelope(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, message(2, bytes.Repeat([]byte{2<<3 | 2, 0}, n)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `"message":"Request entity too large: the object takes more than 50331648 bytes of memory, since its lists have too many elements, or its quantities too large exponents"`
	containers := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[` + elements("{}", n) + `]}}`
	for name, c := range map[string]struct{ method, path, media, body string }{
		"protobuf":      {http.MethodPost, path, protobuf, string(wire)},
		"JSON":          {http.MethodPost, path, "application/json", containers},
		"update":        {http.MethodPut, path + "/a", "application/json", containers},
		"status":        {http.MethodPut, path + "/a/status", "application/json", containers},
		"owners":        {http.MethodPost, path, "application/json", `{"metadata":{"ownerReferences":[` + elements("{}", 900_000) + `]}}`},
		"managedFields": {http.MethodPost, path, "application/json", `{"metadata":{"managedFields":[` + elements("{}", 900_000) + `]}}`},
		"elsewhere":     {http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", containers}, // another type, decoded for its error
		"options":       {http.MethodDelete, path + "/a", "application/json", `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[` + elements("{}", n) + `]}}`},
	} {
		var code int
		var body string
		used := allocated(func() { code, _, body = do(t, config, c.method, c.path, c.media, c.body) })
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(body, want) || used > 40<<20 {
			t.Errorf("%s: %d %.300s, %d bytes allocated", name, code, body, used)
		}
	}
}

// TestSwellingPatches: so is what a patch makes of an object; a patch itself is a tree of maps for a while.
func TestSwellingPatches(t *testing.T) {
	config := serve(t)
	const path = "/api/v1/namespaces/default/pods"
	if code, _, body := do(t, config, http.MethodPost, path, "application/json", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); code != http.StatusCreated {
		t.Fatal(code, body)
	}
	const want = `"message":"Request entity too large: the object takes more than 50331648 bytes of memory, since its lists have too many elements, or its quantities too large exponents"`
	containers := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[` + elements("{}", 500_000) + `]}}`
	for name, c := range map[string]struct{ path, media, body string }{
		"JSON":      {"/a", "application/json-patch+json", `[{"op":"replace","path":"/spec/containers","value":[` + elements("{}", 500_000) + `]}]`},
		"merge":     {"/a", "application/merge-patch+json", containers},
		"status":    {"/a/status", "application/merge-patch+json", containers},
		"strategic": {"/a", "application/strategic-merge-patch+json", `{"spec":{"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[` + elements("{}", 900_000) + `]}}}}`},
		"apply":     {"/a?fieldManager=me", applyYAML, containers},
	} {
		var code int
		var body string
		used := allocated(func() { code, _, body = do(t, config, http.MethodPatch, path+c.path, c.media, c.body) })
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(body, want) || used > 400<<20 {
			t.Errorf("%s: %d %.300s, %d bytes allocated", name, code, body, used)
		}
	}
}

// TestLargeExponents: a quantity of a few bytes that is a number of a hundred million digits is refused before anybody parses
// or compares it, which would take minutes; where a text is no quantity, it is nothing special.
func TestLargeExponents(t *testing.T) {
	config := serve(t)
	const path, protobuf = "/api/v1/namespaces/default/pods", "application/vnd.kubernetes.protobuf"
	const want = `or its quantities too large exponents"`
	pod := func(name, quantity string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":` + quantity + `}}}]}}`
	}
	wire := func(quantity string) string {
		message := func(field byte, payload string) string {
			return string(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(payload)))) + payload
		}
		entry := message(1, "cpu") + message(2, message(1, quantity))
		data, err := codec.Envelope(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, []byte(message(2, message(2, message(8, message(1, entry))))))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, name := range []string{"a", "e5"} {
		if code, _, body := do(t, config, http.MethodPost, path, "application/json", pod(name, `"1e-9"`)); code != http.StatusCreated {
			t.Fatal(code, body)
		}
	}
	const limits = `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1\u0065-99999999"}}}]}}`
	for name, c := range map[string]struct{ method, path, media, body string }{
		"JSON":            {http.MethodPost, path, "application/json", pod("b", `"1e-99999999"`)},
		"a number":        {http.MethodPost, path, "application/json", pod("b", `1e-99999999`)},
		"a large number":  {http.MethodPost, path, "application/json", pod("b", `"1E99999999"`)},
		"around an int32": {http.MethodPost, path, "application/json", pod("b", `"8099999909E9999099999999995"`)},
		"YAML":            {http.MethodPost, path, "application/yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1e-99999999'}}}]}"},
		"protobuf":        {http.MethodPost, path, protobuf, wire("1e-99999999")},
		"update":          {http.MethodPut, path + "/a", "application/json", pod("a", `"1e-99999999"`)},
		"status":          {http.MethodPut, path + "/a/status", "application/json", pod("a", `"1e-99999999"`)},
		"elsewhere":       {http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", pod("b", `"1e-99999999"`)},
		"a JSON patch":    {http.MethodPatch, path + "/a", "application/json-patch+json", `[{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1\u0065-99999999"}]`},
		"a merge patch":   {http.MethodPatch, path + "/a", "application/merge-patch+json", limits},
		"a strategic one": {http.MethodPatch, path + "/a", "application/strategic-merge-patch+json", limits},
		"apply":           {http.MethodPatch, path + "/a?fieldManager=me", applyYAML, pod("a", `"1\u0065-99999999"`)},
		"many small ones": {http.MethodPost, "/api/v1/namespaces/default/resourcequotas", "application/json", `{"metadata":{"name":"q"},"spec":{"hard":{` + elements(`"x":"1e-999"`, 5000) + `}}}`},
	} {
		if code, _, body := do(t, config, c.method, c.path, c.media, c.body); code != http.StatusRequestEntityTooLarge || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s", name, code, body)
		}
	}
	for name, body := range map[string]string{
		"a page size": `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1Gi","hugepages-1e-99999999":"1"}}}]}}`,
		"a medium":    `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{"medium":"HugePages-1e-99999999"}}]}}`,
	} {
		if code, _, body := do(t, config, http.MethodPost, path+"?dryRun=All", "application/json", body); code != http.StatusUnprocessableEntity && code != http.StatusCreated {
			t.Errorf("%s: %d %.300s", name, code, body)
		}
	}
	for name, c := range map[string]struct{ media, body string }{
		"configmaps":     {"application/json", `{"metadata":{"name":"m","labels":{"commit":"1e45678"}},"data":{"x":"1e-99999999"}}`},
		"resourcequotas": {"application/json", `{"metadata":{"name":"m","annotations":{"x":"1e-99999999"}},"spec":{"hard":{"pods":"1e1","cpu":"1e-1000"}}}`},
	} {
		if code, _, body := do(t, config, http.MethodPost, "/api/v1/namespaces/default/"+name, c.media, c.body); code != http.StatusCreated {
			t.Errorf("%s: %d %.300s", name, code, body)
		}
	}
}

// TestManyErrors: of many errors the first are told, and how many there are.
func TestManyErrors(t *testing.T) {
	config := serve(t)
	const path, n = "/api/v1/namespaces/default/configmaps", 30_000
	code, _, body := do(t, config, http.MethodPost, path, "application/json", `{"metadata":{"name":"a","finalizers":[`+elements(`"_"`, n)+`]}}`)
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusUnprocessableEntity {
		t.Fatalf("%d %.300s %v", code, body, err)
	}
	causes := status.Details.Causes
	last := causes[len(causes)-1]
	if len(causes) != 1001 || last.Type != "FieldErrorsLeftOut" || last.Message != fmt.Sprint(2*n-1000)+" more errors are left out" || !strings.HasSuffix(status.Message, "; "+last.Message) || len(body) > 600<<10 {
		t.Errorf("%d causes, the last %+v, %d bytes, %.300s", len(causes), last, len(body), status.Message)
	}
	const large = 20 << 10
	code, _, body = do(t, config, http.MethodPost, path, "application/json", `{"metadata":{"name":"a","finalizers":[`+elements(`"`+strings.Repeat("_", large)+`"`, 100)+`]}}`)
	if code != http.StatusUnprocessableEntity || len(body) > 2<<20 || !strings.Contains(body, "more errors are left out") {
		t.Errorf("%d, %d bytes, %.300s", code, len(body), body)
	}
	long := strings.Repeat("ä", 1<<20)
	code, _, body = do(t, config, http.MethodPost, path, "application/json", `{"metadata":{"name":"a","labels":{"a":"`+long+`"}}}`)
	if code != http.StatusUnprocessableEntity || len(body) > 200<<10 || !strings.Contains(body, "more bytes are left out)") {
		t.Errorf("%d, %d bytes, %.300s", code, len(body), body)
	}
}

// TestLongSelectors: a selector of a hundred thousand terms, for which a request line has room, is refused before
// it is parsed.
func TestLongSelectors(t *testing.T) {
	config := serve(t)
	labels, fields := strings.Repeat("!a,", 100_000)+"!a", strings.Repeat("metadata.name!=a,", 50_000)+"metadata.name!=a"
	for _, c := range []struct{ method, query, want string }{
		{http.MethodGet, "labelSelector=" + labels, "labelSelector: selector is too long: it has 100001 terms, at most 1000 are allowed"},
		{http.MethodGet, "fieldSelector=" + fields, "fieldSelector: selector is too long: it has 50001 terms, at most 1000 are allowed"},
		{http.MethodGet, "watch=1&labelSelector=" + labels, "labelSelector: selector is too long"},
		{http.MethodDelete, "labelSelector=a+in+(" + strings.Repeat("b,", 100_000) + "b)", "labelSelector: selector is too long: it has 100001 values, at most 10000 are allowed"},
	} {
		var code int
		var body string
		used := allocated(func() {
			code, _, body = do(t, config, c.method, "/api/v1/namespaces/default/configmaps?"+c.query, "", "")
		})
		// Of the query there are some copies; parsed, each term takes a few hundred bytes.
		if code != http.StatusBadRequest || !strings.Contains(body, c.want) || used > 64*uint64(len(c.query)) {
			t.Errorf("%s %.30s: %d %.300s, %d bytes allocated", c.method, c.query, code, body, used)
		}
	}
}

// TestCompressedBody: bodies are not decompressed, as upstream does not: what is compressed is no JSON.
func TestCompressedBody(t *testing.T) {
	config := serve(t)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, media := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
		r := httptest.NewRequest(http.MethodPost, "http://keelson/api/v1/namespaces/default/configmaps", &compressed)
		r.Header = http.Header{"Content-Type": {media}, "Content-Encoding": {"gzip"}}
		body := bytes.NewReader(compressed.Bytes())
		r.Body = io.NopCloser(body)
		var resp *http.Response
		var err error
		used := allocated(func() { resp, err = config.Transport.RoundTrip(r) })
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || used > 32<<20 {
			t.Errorf("%s: %s, %d bytes allocated", media, resp.Status, used)
		}
	}
}
