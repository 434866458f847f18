package apiserver_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/keelson-dev/keelson/apiserver"
)

// wire notes the media types that a client sends and gets.
type wire struct {
	http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, strings.TrimSpace(r.Header.Get("Content-Type")+" "+answer.Header.Get("Content-Type")))
	}
	return answer, err
}

// take returns the media types since the last call, each once.
func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	slices.Sort(seen)
	return slices.Compact(seen)
}

// cborClient returns a server that speaks CBOR, for clients that prefer it.
func cborClient(t *testing.T) (*rest.Config, *wire) {
	featurestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	featurestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	config, w := rest.CopyConfig(serveWith(t, apiserver.Options{CBOR: true})), &wire{}
	config.Wrap(transport.WrapperFunc(func(rt http.RoundTripper) http.RoundTripper { w.RoundTripper = rt; return w }))
	return config, w
}

// TestCBOR: client-go's dynamic client reads, writes and watches in CBOR.
func TestCBOR(t *testing.T) {
	config, w := cborClient(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	in := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("ns")
	expect := func(what string, media ...string) {
		t.Helper()
		if got := w.take(); !slices.Equal(got, media) {
			t.Errorf("%s: %q, want %q", what, got, media)
		}
	}
	watched, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	expect("watch", "application/cbor-seq")
	show := func(u *unstructured.Unstructured, err error) string {
		if err != nil {
			return err.Error()
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", "a")
		return u.GetAPIVersion() + " " + u.GetKind() + " " + u.GetName() + " " + text
	}
	check := func(what, want string, u *unstructured.Unstructured, err error) {
		t.Helper()
		if got := show(u, err); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	config1 := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one"}, "data": map[string]any{"a": text},
		}}
	}
	u, err := in.Create(ctx, config1("é<1"), metav1.CreateOptions{})
	check("create", "v1 ConfigMap one é<1", u, err)
	u.Object["data"] = map[string]any{"a": "2"}
	u, err = in.Update(ctx, u, metav1.UpdateOptions{})
	check("update", "v1 ConfigMap one 2", u, err)
	expect("writes", "application/cbor application/cbor")
	u, err = in.Apply(ctx, "one", config1("3"), metav1.ApplyOptions{FieldManager: "me", Force: true})
	check("apply", "v1 ConfigMap one 3", u, err)
	expect("apply", "application/apply-patch+cbor application/cbor")
	u, err = in.Patch(ctx, "one", types.MergePatchType, []byte(`{"data":{"a":"4"}}`), metav1.PatchOptions{})
	check("patch", "v1 ConfigMap one 4", u, err)
	w.take()
	u, err = in.Get(ctx, "one", metav1.GetOptions{})
	check("get", "v1 ConfigMap one 4", u, err)
	list, err := in.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.GetKind() != "ConfigMapList" || list.GetResourceVersion() == "" {
		t.Fatalf("list: %v, %v", list, err)
	}
	check("list", "v1 ConfigMap one 4", &list.Items[0], nil)
	if _, err := in.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what there is not: %v", err)
	}
	expect("reads", "application/cbor")
	if err := in.Delete(ctx, "one", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Error(err)
	}
	expect("delete", "application/cbor application/cbor")
	for _, want := range []string{"ADDED é<1", "MODIFIED 2", "MODIFIED 3", "MODIFIED 4", "DELETED 4"} {
		e := <-watched.ResultChan()
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watched %v, want %s", e, want)
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", "a")
		if got := string(e.Type) + " " + text; got != want || u.GetKind() != "ConfigMap" {
			t.Errorf("watched %s, want %s", got, want)
		}
	}
	if _, err := in.Watch(ctx, metav1.ListOptions{ResourceVersion: "x"}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		t.Errorf("a watch that cannot be: %v", err)
	}
	old, err := in.Watch(ctx, metav1.ListOptions{ResourceVersion: "99999999", TimeoutSeconds: new(int64(1))})
	if err != nil {
		return // which is refused at once is as good
	}
	defer old.Stop()
	if e, ok := <-old.ResultChan(); ok && e.Type != watch.Error {
		t.Errorf("a watch from the future: %v", e)
	}
}

// TestCBORTyped: typed clients speak CBOR, with bytes in it.
func TestCBORTyped(t *testing.T) {
	config, w := cborClient(t)
	config.ContentType, config.AcceptContentTypes = "application/cbor", "application/cbor"
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	value := []byte{0, 1, 0xff, 'x'}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": value}}
	for range 2 {
		if secret, err = cs.CoreV1().Secrets("ns").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(secret.Data["k"], value) || secret.CreationTimestamp.IsZero() {
			t.Errorf("created %v", secret)
		}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Data: secret.Data}
	}
	if got := w.take(); !slices.Equal(got, []string{"application/cbor application/cbor"}) {
		t.Errorf("media types %q", got)
	}
}

// TestCBORRefused: what a server accepts says whether it speaks CBOR; malformed and hostile bodies are refused.
func TestCBORRefused(t *testing.T) {
	const (
		post = "/api/v1/namespaces/ns/configmaps"
		json = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	)
	object, err := cbor.Marshal(map[string]any{"metadata": map[string]any{"name": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	hostile := append([]byte{0x9a, 0x00, 0x2d, 0xc6, 0xbf}, bytes.Repeat([]byte{0xa0}, 2999999)...) // a list of as many empty maps
	for name, test := range map[string]struct {
		on                         bool
		method, path, accept, sent string
		body                       []byte
		code                       int
		want                       string
	}{
		"off":             {false, "POST", post, "", "application/cbor", object, 415, "the body of the request was in an unknown format - accepted media types include: " + json + `"`},
		"off, answer":     {false, "GET", post, "application/cbor", "", nil, 406, "Available representations: " + json + ", application/json;stream=watch"},
		"off, apply":      {false, "PATCH", post + "/x?fieldManager=m", "", "application/apply-patch+cbor", object, 415, "415: Unsupported Media Type"},
		"on":              {true, "POST", post, "", "application/cbor", object, 201, `"name":"x"`},
		"on, apply":       {true, "PATCH", post + "/x?fieldManager=m", "", "application/apply-patch+cbor", object, 400, "invalid object type: /, Kind="},
		"other format":    {true, "POST", post, "", "text/plain", object, 415, json + ", application/cbor"},
		"other answer":    {true, "GET", post, "text/plain", "", nil, 406, json + ", application/cbor"},
		"no table":        {true, "GET", post, "application/cbor;as=Table;v=v1;g=meta.k8s.io", "", nil, 406, json + ", application/cbor"},
		"table otherwise": {true, "GET", post, "application/cbor;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5", "", nil, 200, `"kind":"ConfigMapList"`},
		"malformed":       {true, "POST", post, "", "application/cbor", []byte{0xa1, 0x61}, 400, "error decoding CBOR: unexpected EOF"},
		"more than one":   {true, "POST", post, "", "application/cbor", append(slices.Clone(object), 0xa0), 400, "error decoding CBOR: "},
		"a field twice":   {true, "POST", post, "", "application/cbor", []byte("\xa2\x61a\x01\x61a\x02"), 400, "error decoding CBOR: cbor: found duplicate map key"},
		"empty":           {true, "POST", post, "", "application/cbor", nil, 400, "must be of type ConfigMap"},
		"memory":          {true, "POST", post, "", "application/cbor", hostile, 413, "the object takes more than 50331648 bytes of memory"},
		"size":            {true, "POST", post, "", "application/cbor", make([]byte, 3<<20+1), 413, "limit is 3145728"},
		"metadata":        {true, "GET", post, "application/cbor;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "", nil, 200, "PartialObjectMetadataList"},
	} {
		t.Run(name, func(t *testing.T) {
			config := serveWith(t, apiserver.Options{CBOR: test.on})
			r, err := http.NewRequestWithContext(t.Context(), test.method, config.Host+test.path, bytes.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", test.sent)
			if test.accept != "" {
				r.Header.Set("Accept", test.accept)
			}
			answer, err := config.Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			code, got := answer.StatusCode, string(text)
			if code != test.code || !strings.Contains(got, test.want) {
				t.Errorf("%d %s, want %d %s", code, got, test.code, test.want)
			}
		})
	}
}
