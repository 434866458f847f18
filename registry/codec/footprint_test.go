package codec_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/randfill"

	"github.com/keelson-dev/keelson/registry/codec"
)

const plenty = 1 << 40

// held returns how many bytes of the heap remain in use by the result of f. It runs f once before, because the
// first object of a type also fills the decoders' caches.
func held(f func() any) int {
	var before, after runtime.MemStats
	f()
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

func nested(number int, payload []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(payload))), payload...)
}

func enveloped(t *testing.T, raw []byte) []byte {
	t.Helper()
	data, err := codec.Envelope(schema.GroupVersionKind{Version: "v1", Kind: "Any"}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestQuantities: a quantity counts by its exponent, wherever it stands, and other texts do not.
func TestQuantities(t *testing.T) {
	var f codec.Footprints
	of := func(quantity string) int {
		return f.Of([]byte(`{"spec":{"overhead":{"cpu":`+quantity+`}}}`), newPod(), plenty)
	}
	wire := func(quantity string) int {
		raw := nested(2, nested(2, nested(8, nested(1, append(nested(1, []byte("cpu")), nested(2, nested(1, []byte(quantity)))...)))))
		return f.Of(enveloped(t, raw), newPod(), plenty)
	}
	plain := of(`"1m"`)
	for quantity, want := range map[string]int{
		`"1"`: 0, `1`: 0, `"1e3"`: 3, `1e3`: 3, `"1e-1000"`: 1000, `"1\u0065-1000"`: 1000, `"1e99999999999"`: 1<<31 - 1, `"x"`: 0, `null`: 0, `{}`: 0, `[]`: 0,
	} {
		if got := of(quantity); got < want<<10 || got > want<<10+plain+100 {
			t.Errorf("%s counts %d", quantity, got)
		}
	}
	for quantity, want := range map[string]int{"1": 0, "1e3": 3, "1e-1000": 1000, "1e99999999999": 1<<31 - 1} {
		if got := wire(quantity); got < want<<10 || got > want<<10+1000 {
			t.Errorf("%s on the wire counts %d", quantity, got)
		}
	}
	if got := f.Of([]byte(`{"metadata":{"name":"1e-1000","labels":{"a":"1e1000"}},"spec":{"priority":1e1000}}`), newPod(), plenty); got > 1000 {
		t.Errorf("other texts count %d", got)
	}
}

// TestFootprint: data that is small on the wire but large in memory is counted as large. Decoding it takes as
// much as was counted, or up to half as much again, since lists grow in steps.
func TestFootprint(t *testing.T) {
	const n = 20000
	list := func(e string) string { return "[" + strings.TrimSuffix(strings.Repeat(e+",", n), ",") + "]" }
	repeat := func(number int, payload ...byte) []byte { return slices.Repeat(nested(number, payload), n) }
	template := func(spec []byte) []byte { return nested(2, nested(3, nested(2, spec))) }
	for name, c := range map[string]struct {
		data []byte
		new  func() apiruntime.Object
	}{
		"containers":             {[]byte(`{"spec":{"containers":` + list("{}") + `}}`), newPod},
		"containers, with space": {[]byte("{ \"spec\" :\n{\"containers\"\t: " + list(" { } ") + "}}"), newPod},
		"containers, escaped":    {[]byte(`{"\u0073pec":{"containers":` + list("null") + `}}`), newPod},
		"containers, again":      {[]byte(`{"spec":{"containers":[]},"spec":{"containers":` + list("{}") + `}}`), newPod},
		"of a template":          {[]byte(`{"spec":{"template":{"spec":{"containers":` + list("{}") + `}}}}`), newDeployment},
		"env":                    {[]byte(`{"spec":{"containers":[{"env":` + list(`{"valueFrom":{"fieldRef":{}}}`) + `}]}}`), newPod},
		"volumes":                {[]byte(`{"spec":{"volumes":` + list(`{"emptyDir":{}}`) + `}}`), newPod}, // an embedded struct
		"owners":                 {[]byte(`{"metadata":{"ownerReferences":` + list("{}") + `}}`), newPod},
		"managed fields":         {[]byte(`{"metadata":{"managedFields":` + list(`{"fieldsV1":{}}`) + `}}`), newPod},
		"rules":                  {[]byte(`{"rules":` + list("{}") + `}`), func() apiruntime.Object { return &rbacv1.ClusterRole{} }},
		"strings":                {[]byte(`{"metadata":{"finalizers":` + list(`""`) + `}}`), newPod},
		"items":                  {[]byte(`{"items":` + list(`{}`) + `}`), func() apiruntime.Object { return &corev1.PodList{} }},
		"wire: containers":       {enveloped(t, nested(2, repeat(2))), newPod},
		"wire: of a template":    {enveloped(t, template(repeat(2))), newDeployment},
		"wire: owners":           {enveloped(t, nested(1, repeat(13))), newPod},
		"wire: env":              {enveloped(t, nested(2, nested(2, repeat(7, nested(3, nested(1, nil))...)))), newPod},
		"wire: volumes":          {enveloped(t, nested(2, repeat(1, nested(2, nested(2, nil))...))), newPod},
		"wire: groups":           {enveloped(t, nested(2, slices.Repeat(append([]byte{0xc3, 0x3e, 8, 1, 0x0b, 0x0c, 0xc4, 0x3e}, nested(2, nil)...), n))), newPod},
		"wire: a long number":    {enveloped(t, append([]byte{0xd8, 0x87, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e, 1}, nested(2, repeat(2))...)), newPod},
		"wire: a high number":    {enveloped(t, nested(2, slices.Repeat([]byte{0x92, 0x80, 0x80, 0x80, 0x80, 0x01, 0}, n))), newPod},
	} {
		t.Run(name, func(t *testing.T) {
			var f codec.Footprints
			counted := f.Of(c.data, c.new(), plenty)
			takes := held(func() any {
				obj := c.new()
				if _, err := codec.Decode(c.data, obj); err != nil {
					t.Error(err)
				}
				return obj
			})
			if counted < takes*2/3 || counted > 2*takes+2*len(c.data) {
				t.Errorf("%d bytes of text are counted as %d and take %d", len(c.data), counted, takes)
			}
			if limited := f.Of(c.data, c.new(), counted/2); limited <= counted/2 || limited > counted/2+64<<10 {
				t.Errorf("with the limit %d it counts %d", counted/2, limited)
			}
		})
	}
}

func newPod() apiruntime.Object        { return &corev1.Pod{} }
func newDeployment() apiruntime.Object { return &appsv1.Deployment{} }

// custom is a third-party kind with forms that the API's types do not have.
type custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Any               any               `json:"any"`
	Map               map[string]custom `json:"map"`
	Self              *custom           `json:"self"`
	Raw               apiruntime.RawExtension
}

func (c *custom) DeepCopyObject() apiruntime.Object { return c }

// TestFootprintOfCustomKinds: types may contain themselves, and values may be of any type.
func TestFootprintOfCustomKinds(t *testing.T) {
	const n = 20000
	members := func(value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":%s`, i, value)
		}
		return "{" + b.String()[1:] + "}"
	}
	for name, text := range map[string]string{
		"any list": `{"any":[` + strings.Repeat("[],", n) + `[]]}`,
		"any map":  `{"any":` + members("1") + `}`,
		"map":      `{"map":` + members("{}") + `}`,
		"self":     strings.Repeat(`{"self":`, 5000) + "{}" + strings.Repeat("}", 5000),
	} {
		var f codec.Footprints
		counted := f.Of([]byte(text), &custom{}, plenty)
		takes := held(func() any {
			obj := &custom{}
			if _, err := codec.Decode([]byte(text), obj); err != nil {
				t.Error(err)
			}
			return obj
		})
		if counted < takes/3 || counted > 3*takes+2*len(text) {
			t.Errorf("%s: %d bytes of text are counted as %d and take %d", name, len(text), counted, takes)
		}
	}
}

// TestFootprintOfOrdinaryObjects: ordinary objects count a few times their text, and their JSON and protobuf
// forms about the same.
func TestFootprintOfOrdinaryObjects(t *testing.T) {
	var f codec.Footprints
	fill := randfill.NewWithSeed(rand.Int64()).NilChance(0.3).NumElements(1, 5).MaxDepth(12).Funcs(
		func(*metav1.FieldsV1, randfill.Continue) {}, func(s *string, c randfill.Continue) { *s = fmt.Sprint(c.Uint64()) },
		func(*apiruntime.RawExtension, randfill.Continue) {})
	for range 50 {
		pod := &corev1.Pod{}
		fill.Fill(pod)
		pod.TypeMeta = metav1.TypeMeta{}
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := codec.Protobuf(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, pod)
		if err != nil {
			t.Fatal(err)
		}
		of, ofWire := f.Of(text, &corev1.Pod{}, plenty), f.Of(wire, &corev1.Pod{}, plenty)
		if of > 8*len(text) || ofWire > 12*len(wire) || of-len(text) > 2*(ofWire-len(wire)) || ofWire-len(wire) > 2*(of-len(text)) {
			t.Errorf("JSON of %d bytes: %d, protobuf of %d: %d", len(text), of, len(wire), ofWire)
		}
	}
}

// FuzzFootprint: counting ends for any text, and decoded objects are not much larger than was counted.
func FuzzFootprint(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{},{"env":[{}]}],"volumes":[{"emptyDir":{}}]}}`))
	f.Add(append([]byte("k8s\x00"), nested(2, nested(2, nested(2, nil)))...))
	for _, text := range []string{"", "{", `{"`, `{"spec`, `{"spec":[`, `[,]`, `{"metadata":{"labels":{"a":"b",}}`, `{"a":"\`, "[[[[", "nul"} {
		f.Add([]byte(text))
	}
	var sizes codec.Footprints
	f.Fuzz(func(t *testing.T, data []byte) {
		counted := sizes.Of(data, &corev1.Pod{}, plenty)
		if counted < len(data) {
			t.Errorf("counted %d of %d bytes", counted, len(data))
		}
		pod := &corev1.Pod{}
		if _, err := codec.Decode(data, pod); err != nil {
			return
		}
		elements := len(pod.Spec.Containers)*350 + len(pod.Spec.Volumes)*200 + len(pod.OwnerReferences)*90 + len(pod.Labels)*80
		for _, c := range pod.Spec.Containers {
			elements += len(c.Env)*40 + len(c.VolumeMounts)*90
		}
		if elements > counted {
			t.Errorf("counted %d, but there are elements of %d bytes", counted, elements)
		}
	})
}
