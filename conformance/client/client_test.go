package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/keelson-dev/keelson/client/discovery"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/client/message"
)

// checkErr returns what kubectl prints for an error before it exits.
func checkErr(err error) (printed string) {
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(exited{message}) })
	defer func() {
		if e, ok := recover().(exited); ok {
			printed = strings.TrimRight(e.message, "\n")
		}
	}()
	cmdutil.CheckErr(err)
	return ""
}

func TestMessages(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	name := field.Invalid(field.NewPath("metadata", "name"), "A", "too big")
	for _, err := range []error{
		nil, errors.New("x"), errors.New("error: x"), fmt.Errorf("a: %w", errors.New("b")),
		apierrors.NewNotFound(pods, "p"), apierrors.NewUnauthorized("who"), apierrors.NewForbidden(pods, "p", errors.New("no")),
		apierrors.NewConflict(pods, "p", errors.New("old")), apierrors.NewInternalError(errors.New("oops")), apierrors.NewTooManyRequests("wait", 1),
		apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{name}),
		apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{name, name, field.Required(field.NewPath("spec"), "x")}),
		apierrors.NewInvalid(schema.GroupKind{}, "", nil), apierrors.NewBadRequest("bad"),
		&apierrors.StatusError{ErrStatus: metav1.Status{Message: "odd"}},
		&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422, Message: "no"}},
		&meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Group: "g", Version: "v", Resource: "foos"}},
		&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "g", Kind: "Foo"}, SearchedVersions: []string{"v1"}},
		&url.Error{Op: "Get", URL: "https://host:1/api?x=y", Err: errors.New("dial tcp: connection refused")},
		&url.Error{Op: "Get", URL: "https://host:1/api", Err: errors.New("net/http: TLS handshake timeout")},
		utilerrors.NewAggregate([]error{errors.New("one")}),
		utilerrors.NewAggregate([]error{errors.New("one"), apierrors.NewNotFound(pods, "p"), errors.New("two")}),
	} {
		if want, got := checkErr(err), message.Of(err); got != want {
			t.Errorf("%#v\nis   %q,\nwant %q", err, got, want)
		}
	}
}

// counting counts requests.
type counting struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// Each finds what the other has cached of a server.
func TestDiscoveryCacheIsShared(t *testing.T) {
	k := newKubectl(t)
	var n atomic.Int64
	k.config.Transport = counting{k.config.Transport, &n}
	ours := func() {
		t.Helper()
		d, err := discovery.New(k.config, discovery.Options{CacheDir: k.cache})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Mapping(t.Context(), "deploy"); err != nil {
			t.Fatal(err)
		}
	}
	theirs := func() {
		t.Helper()
		if _, failure := k.run([]string{"api-resources", "--cached"}); failure != "" {
			t.Fatal(failure)
		}
	}
	for name, order := range map[string][2]func(){"kubectl first": {theirs, ours}, "kubectl second": {ours, theirs}} {
		k.cache = t.TempDir()
		n.Store(0)
		order[0]()
		first := n.Swap(0)
		order[1]()
		if second := n.Load(); first == 0 || second != 0 {
			t.Errorf("%s: %d requests, and then %d, want none", name, first, second)
		}
	}
}

// Names that are not served cause the same errors.
func TestNotServed(t *testing.T) {
	k := newKubectl(t)
	d, err := discovery.New(k.config, discovery.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"foos", "foos.example.com", "foos.v1.example.com", "Foo"} {
		_, err := d.Mapping(t.Context(), name)
		if _, failure := k.run([]string{"get", name}); message.Of(err) != failure {
			t.Errorf("%s: %q, kubectl %q", name, message.Of(err), failure)
		}
	}
}

// kubectl uses a file in which it finds an entry.
func TestKubeconfig(t *testing.T) {
	k := newKubectl(t)
	path := filepath.Join(t.TempDir(), "config")
	for _, name := range []string{"one", "two"} {
		err := kubeconfig.Add(t.Context(), path, kubeconfig.Entry{Name: name, User: name + "-admin", Server: "https://" + name, Token: "t", Namespace: "shop"})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBECONFIG", path)
	for _, c := range []struct{ command, want string }{
		{"config current-context", "two\n"},
		{"config get-contexts -o=name", "one\ntwo\n"},
		{"config view --minify -o=jsonpath={.clusters[0].cluster.server},{.contexts[0].context.namespace},{.users[0].name}", "https://two,shop,two-admin"},
		{"config use-context one", "Switched to context \"one\".\n"},
	} {
		if out, failure := k.run(strings.Fields(c.command)); out != c.want || failure != "" {
			t.Errorf("%s: %q %s", c.command, out, failure)
		}
	}
	access, err := kubeconfig.Load(kubeconfig.Options{Environment: kubeconfig.Environment{Kubeconfig: path}})
	if err != nil || access.Config.Host != "https://one" {
		t.Errorf("after kubectl wrote the file: %v, %v", access, err)
	}
}
