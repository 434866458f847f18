package openapi_test

import (
	"net/http"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"
)

// TestProtobuf: the protobuf form is what gnostic, which clients decode with, makes of the JSON.
func TestProtobuf(t *testing.T) {
	d := everything()
	urls := []string{"/openapi/v2"}
	for key := range document(t, d, "/openapi/v3")["paths"].(map[string]any) {
		urls = append(urls, "/openapi/v3/"+key)
	}
	if testing.Short() { // the race detector makes gnostic slow; these have everything that others have
		urls = []string{"/openapi/v3/apis/apps/v1", "/openapi/v3/apis/things.example.com/v1", "/openapi/v3/version"}
	}
	for _, url := range urls {
		accept, parse, got := protobuf3, parse3, proto.Message(&openapi_v3.Document{})
		if url == "/openapi/v2" {
			accept, parse, got = protobuf2, parse2, &openapi_v2.Document{}
		}
		want, err := parse(get(d, http.MethodGet, url).Body.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := proto.Unmarshal(get(d, http.MethodGet, url, "Accept", accept).Body.Bytes(), got); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		normalize(want.ProtoReflect())
		normalize(got.ProtoReflect())
		if !proto.Equal(want, got) {
			t.Errorf("%s: gnostic makes\n%.2000s\nof the JSON, but the protobuf form is\n%.2000s", url, prototext.Format(want), prototext.Format(got))
		}
	}
}

func parse2(data []byte) (proto.Message, error) { return openapi_v2.ParseDocument(data) }

func parse3(data []byte) (proto.Message, error) { return openapi_v3.ParseDocument(data) }

// normalize writes all YAML inside a message, which is the form of values that have none, as JSON.
func normalize(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				normalize(v.List().Get(i).Message())
			}
		case f.Message() != nil && !f.IsMap():
			normalize(v.Message())
		case f.Name() == "yaml":
			if data, err := yaml.YAMLToJSON([]byte(v.String())); err == nil {
				m.Set(f, protoreflect.ValueOfString(string(data)))
			}
		}
		return true
	})
}
