package codec_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/registry/codec"
)

// item is the element of the lists here: no other type has its size.
type item struct {
	A, B, C int64
	More    []item `json:"more" protobuf:"bytes,1,rep,name=more"`
}

type inner struct {
	Inner []item `json:"inner"`
}

// Many is embedded without being a struct: in JSON it is a field of its name.
type Many []item

// ofJSON and ofText unmarshal themselves.
type ofJSON struct{ Items []item }

func (*ofJSON) UnmarshalJSON([]byte) error { return nil }

type ofText struct{ Items []item }

func (*ofText) UnmarshalText([]byte) error { return nil }

// measured has a field of every form.
type measured struct {
	metav1.TypeMeta
	inner
	Many
	List    []item          `json:"list" protobuf:"bytes,1,rep,name=list"`
	Map     map[string]item `json:"map" protobuf:"bytes,2,rep,name=map"`
	Numbers []int64         `json:"numbers" protobuf:"varint,3,rep,name=numbers"`
	Text    []byte          `json:"text" protobuf:"bytes,4,opt,name=text"`
	Names   []string        `json:"names" protobuf:"bytes,5,rep,name=names"`
	Pointer *item           `json:"pointer" protobuf:"bytes,6,opt,name=pointer"`
	Struct  item            `json:"struct" protobuf:"bytes,7,opt,name=struct"`
	Small   []small         `json:"small" protobuf:"bytes,8,rep,name=small"`
	Plain   inner
	Any     any             `json:"any"`
	JSON    ofJSON          `json:"ofJSON"`
	Marks   ofText          `json:"ofText"`
	Lists   map[string]Many `json:"lists" protobuf:"bytes,15,rep,name=lists"`
	Hidden  []item          `json:"-"`
	private []item
}

type small struct {
	A int64 `protobuf:"varint,1,opt,name=a"`
}

func (m *measured) DeepCopyObject() apiruntime.Object { _ = m.private; return m }

const (
	sizeOfItem  = int(unsafe.Sizeof(item{}))
	sizeOfEntry = 48 + int(unsafe.Sizeof("")) + sizeOfItem
	sizeOfAny   = 32
)

// exactly returns texts with the size of their elements; the text itself counts for its strings.
func exactly(t *testing.T) map[string]struct {
	text string
	want int
} {
	t.Helper()
	wire := func(fields ...[]byte) string { return string(enveloped(t, slices.Concat(fields...))) }
	two := slices.Concat(nested(1, nil), nested(1, nil))
	deep := func(open, inside, end string, n int) string {
		return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
	}
	long := slices.Repeat([]byte{0x80}, 10)
	return map[string]struct {
		text string
		want int
	}{
		"nothing":                       {`{}`, 0},
		"blanks":                        {" {\r\n\t\"list\" \r: \r[ {\r} \r, { } ] }", 2 * sizeOfItem},
		"a list":                        {`{"list":[{},{}]}`, 2 * sizeOfItem},
		"lists in a list":               {`{"list":[{"more":[{},{}]},{}]}`, 4 * sizeOfItem},
		"a map":                         {`{"map":{"a":{},"b":{"more":[{}]}}}`, 2*sizeOfEntry + sizeOfItem},
		"a list for a map":              {`{"map":[{},{}]}`, 0},
		"numbers":                       {`{"numbers":[1,2,300]}`, 3 * 8},
		"names":                         {`{"names":["a","b"]}`, 2 * int(unsafe.Sizeof(""))},
		"bytes":                         {`{"text":"aGFsbG8="}`, 0},
		"bytes as a list":               {`{"text":[1,2]}`, 0},
		"a pointer":                     {`{"pointer":{"more":[{}]}}`, 2 * sizeOfItem},
		"a pointer to nothing":          {`{"pointer":null}`, 0},
		"a struct":                      {`{"struct":{"more":[{}]}}`, sizeOfItem},
		"embedded, private":             {`{"inner":[{}]}`, sizeOfItem},
		"embedded, not a struct":        {`{"Many":[{}]}`, sizeOfItem},
		"not embedded":                  {`{"Plain":{"inner":[{}]}}`, sizeOfItem},
		"unknown":                       {`{"nobody":[{},{}],"list":[{}]}`, sizeOfItem},
		"not in JSON":                   {`{"Hidden":[{}],"private":[{}],"-":[{}]}`, 0},
		"any":                           {`{"any":[1,{"a":null,"b":[]}]}`, 5*sizeOfAny + 2*48},
		"own unmarshalers":              {`{"ofJSON":{"Items":[{}]},"ofText":{"Items":[{}]}}`, 0},
		"escaped":                       {`{"l\u0069st":[{}]}`, sizeOfItem},
		"escaped badly":                 {`{"l\xist":[{}]}`, 0},
		"as deep as decoded":            {`{"any":` + deep("[", "", "]", 10000) + `}`, 10000 * sizeOfAny},
		"deeper":                        {`{"any":` + deep("[", "", "]", 10020) + `}`, 10000 * sizeOfAny},
		"maps, deeper":                  {`{"any":` + deep(`{"a":`, "1", "}", 10020) + `}`, 10000 * (sizeOfAny + 48)},
		"no colon":                      {`{"list" [{},{}]}`, 0},
		"no colon, but a comma":         {`{"struct":{"more",[{}]},"list":[{}]}`, 0},
		"another end":                   {`{"struct":{"x":1],"list":[{}]}`, 0},
		"two commas":                    {`{"struct":{"x":1,,"more":[{}]},"list":[{}]}`, 0},
		"wire: a list":                  {wire(nested(1, nil), nested(1, nil)), 2 * sizeOfItem},
		"wire: lists in a list":         {wire(nested(1, two), nested(1, nil)), 4 * sizeOfItem},
		"wire: a map":                   {wire(nested(2, slices.Concat(nested(1, []byte("a")), nested(2, two))), nested(2, nil)), 2*sizeOfEntry + 2*sizeOfItem},
		"wire: a key like an item":      {wire(nested(2, slices.Concat(nested(1, two), nested(2, nil)))), sizeOfEntry},
		"wire: an entry that breaks":    {wire(nested(2, []byte{2<<3 | 2, 9, 1<<3 | 2, 0})), sizeOfEntry},
		"wire: numbers":                 {wire([]byte{3 << 3, 1, 3 << 3, 0xac, 2}), 2 * 8},
		"wire: numbers, packed":         {wire(nested(3, []byte{1, 2, 3})), 3 * 8},
		"wire: bytes":                   {wire(nested(4, make([]byte, 100))), 0},
		"wire: names":                   {wire(nested(5, []byte("abc")), nested(5, nil)), 2 * int(unsafe.Sizeof(""))},
		"wire: a pointer":               {wire(nested(6, two)), 3 * sizeOfItem},
		"wire: a struct":                {wire(nested(7, two)), 2 * sizeOfItem},
		"wire: small structs":           {wire(nested(8, []byte{1 << 3, 1}), nested(8, []byte{1 << 3, 1})), 2 * 8},
		"wire: unknown forms":           {wire([]byte{9<<3 | 1, 10, 0, 10, 0, 10, 0, 10, 0, 9<<3 | 5, 10, 0, 10, 0, 9 << 3, 0x80, 1}, nested(1, nil)), sizeOfItem},
		"wire: a group":                 {wire([]byte{9<<3 | 3, 8, 1, 10 << 3 & 127, 1, 1<<3 | 3, 1<<3 | 4, 9<<3 | 4}, nested(1, nil)), sizeOfItem},
		"wire: no form":                 {wire([]byte{9<<3 | 6}, nested(1, nil)), 0},
		"wire: the end of no group":     {wire([]byte{9<<3 | 4}, nested(1, nil)), 0},
		"wire: a group without end":     {wire([]byte{9<<3 | 3}, nested(1, nil)), 0},
		"wire: a group that breaks":     {wire([]byte{9<<3 | 3}, nested(1, nil), []byte{7}), 0},
		"wire: longer than it is":       {wire([]byte{1<<3 | 2, 3, 10, 0}), 0},
		"wire: much longer":             {wire(binary.AppendUvarint([]byte{1<<3 | 2}, 1<<63+2), nested(1, nil)), 0},
		"wire: a number without end":    {wire(nested(1, nil), []byte{9 << 3, 0x80}), sizeOfItem},
		"wire: a tag without end":       {wire(nested(1, nil), []byte{0x8a}), sizeOfItem},
		"wire: a tag that is long":      {wire(append([]byte{0x8a}, long[:8]...), []byte{0, 0}), sizeOfItem},
		"wire: a tag that is longer":    {wire(append([]byte{0x8a}, long...), []byte{0}, nested(1, nil)), 0},
		"wire: what follows such a tag": {wire(append([]byte{0x8a}, long...), []byte{0, 1}, nested(1, nil)), 0},
		"wire: a size that is longer":   {wire(append([]byte{9<<3 | 2}, long...), []byte{0}, nested(1, nil)), 0},
	}
}

// TestFootprintExactly: elements of lists and maps and the targets of pointers are counted in addition to the
// text: in JSON as far as it is valid JSON, and on the wire as far as it is a valid message.
func TestFootprintExactly(t *testing.T) {
	for name, tt := range exactly(t) {
		var f codec.Footprints
		total := len(tt.text) + tt.want
		if got := f.Of([]byte(tt.text), &measured{}, plenty); got != total {
			t.Errorf("%s: %d more than the text of %d, want %d", name, got-len(tt.text), len(tt.text), tt.want)
		}
		if tt.want == 0 {
			continue
		}
		// If the text alone reaches the limit, the first element exceeds it.
		if got := f.Of([]byte(tt.text), &measured{}, len(tt.text)); got <= len(tt.text) {
			t.Errorf("%s: %d with the limit %d", name, got, len(tt.text))
		}
		if got := f.Of([]byte(tt.text), &measured{}, total); got != total {
			t.Errorf("%s: %d with the limit %d", name, got, total)
		}
	}
}

// TestFootprintStops: counting stops at the limit.
func TestFootprintStops(t *testing.T) {
	for name, text := range map[string]string{
		"list":       `{"list":[` + strings.Repeat("{},", 99) + `{}]}`,
		"wire: list": string(enveloped(t, slices.Repeat(nested(1, nil), 100))),
		"wire: map":  string(enveloped(t, nested(2, slices.Repeat(nested(2, nested(1, nil)), 100)))),
	} {
		var f codec.Footprints
		limit := len(text) + 10*sizeOfItem
		if got := f.Of([]byte(text), &measured{}, limit); got <= limit || got > limit+sizeOfEntry+sizeOfItem {
			t.Errorf("%s: %d with the limit %d", name, got, limit)
		}
	}
}

// TestFootprintStopsInMaps: a map whose value repeats is counted up to the limit, and not beyond.
func TestFootprintStopsInMaps(t *testing.T) {
	var f codec.Footprints
	wire := enveloped(t, nested(15, slices.Repeat(nested(2, nil), 100)))
	limit := len(wire) + 48 + int(unsafe.Sizeof("")) + int(unsafe.Sizeof(Many{})) + 3*sizeOfItem
	if got := f.Of(wire, &measured{}, limit); got != limit+sizeOfItem {
		t.Errorf("%d with the limit %d, want %d", got, limit, limit+sizeOfItem)
	}
}

// TestFootprintOfUnstructured: an object that unmarshals itself counts as one of any type, unless it is in an
// envelope.
func TestFootprintOfUnstructured(t *testing.T) {
	var f codec.Footprints
	const text = `{"a":{"b":1}}`
	if got, want := f.Of([]byte(text), &unstructured.Unstructured{}, plenty), len(text)+3*sizeOfAny+2*48; got != want {
		t.Errorf("counted %d, want %d", got, want)
	}
	wire := enveloped(t, nested(1, nil))
	if got := f.Of(wire, &unstructured.Unstructured{}, plenty); got != len(wire) {
		t.Errorf("counted %d of %d bytes", got, len(wire))
	}
}

func TestType(t *testing.T) {
	want := schema.GroupVersionKind{Group: "g", Version: "v", Kind: "K"}
	wire, err := codec.Envelope(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"JSON": `{"kind":"K","apiVersion":"g/v","x":1}`, "protobuf": string(wire)} {
		if got, err := codec.Type([]byte(data)); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, data := range map[string]string{"JSON": `{"kind":"K"`, "protobuf": "k8s\x00\xff", "nothing": ""} {
		if got, err := codec.Type([]byte(data)); err == nil {
			t.Errorf("malformed %s: %v", name, got)
		}
	}
}

// TestMalformed: malformed data is an error, whichever way it is decoded.
func TestMalformed(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	broken, err := codec.Envelope(gvk, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"envelope": "k8s\x00\xff", "message": string(broken), "JSON": `{"data":`, "nothing": ""} {
		if named, err := codec.Decode([]byte(data), &corev1.ConfigMap{}); err == nil {
			t.Errorf("%s: decoded as %v", name, named)
		}
		if name == "message" {
			continue
		}
		if named, raw, err := codec.Open([]byte(data)); err == nil {
			t.Errorf("%s: opened as %v with %q", name, named, raw)
		}
	}
	if _, _, err := codec.DecodeStrict([]byte(`{"data":`), &corev1.ConfigMap{}); err == nil {
		t.Error("decoded strictly")
	}
	if err := codec.DecodeRaw([]byte{0xff}, &corev1.ConfigMap{}); err == nil {
		t.Error("decoded without an envelope")
	}
}

// stubborn can be encoded neither in JSON nor in protobuf.
type stubborn struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

var errStubborn = errors.New("no")

func (*stubborn) MarshalJSON() ([]byte, error)        { return nil, errStubborn }
func (s *stubborn) DeepCopyObject() apiruntime.Object { return s }

func TestNotWritten(t *testing.T) {
	gvk := schema.GroupVersionKind{Version: "v", Kind: "K"}
	if data, err := codec.JSON(gvk, &stubborn{}); !errors.Is(err, errStubborn) {
		t.Errorf("JSON %q, %v", data, err)
	}
	if data, err := codec.Protobuf(gvk, &stubborn{}); !errors.Is(err, codec.ErrNotProtobuf) {
		t.Errorf("protobuf %q, %v", data, err)
	}
	if data, err := codec.Stored(gvk, &stubborn{}); !errors.Is(err, errStubborn) {
		t.Errorf("stored %q, %v", data, err)
	}
}

func TestDecodeStrict(t *testing.T) {
	into := &corev1.ConfigMap{}
	gvk, strict, err := codec.DecodeStrict([]byte(`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b","a":"c"},"nobody":1}`), into)
	if err != nil || gvk != corev1.SchemeGroupVersion.WithKind("ConfigMap") || len(strict) != 2 || into.Data["a"] != "c" || into.Kind != "" {
		t.Errorf("decoded %v, %v, %v: %+v", gvk, strict, err, into)
	}
}

// TestCanonicalKeeps: non-empty lists and maps stay, and so do bytes, for which protobuf can tell nil from
// empty.
func TestCanonicalKeeps(t *testing.T) {
	obj := sample()
	obj.OwnerReferences, obj.Annotations = []metav1.OwnerReference{}, map[string]string{}
	want := obj.DeepCopy()
	want.OwnerReferences, want.Annotations = nil, nil
	codec.Canonical(obj)
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Error(diff)
	}
	bytes := &appsv1.ControllerRevision{Data: apiruntime.RawExtension{Raw: []byte{}}}
	if codec.Canonical(bytes); bytes.Data.Raw == nil {
		t.Error("empty bytes became nil")
	}
}
