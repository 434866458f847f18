package audit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

func request(path string) *audit.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	return &audit.Request{HTTP: r, Attributes: authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "get", Path: "/"}, ID: "id", Received: time.Now()}
}

// TestNil: a request that nobody records needs no questions.
func TestNil(t *testing.T) {
	var r *audit.Record
	r.Annotate("a", "b")
	r.Impersonated(&authn.Identity{}, "")
	r.Object(&metav1.ObjectMeta{})
	r.RequestObject([]byte("{}"))
	r.ResponseObject([]byte("{}"))
	r.Status(&metav1.Status{})
	r.Code(200)
	r.Started()
	r.Completed()
	r.Panicked("oh")
	audit.Annotate(context.Background(), "a", "b")
	if r.Begin(request("/")) || r.WantsRequest() || r.WantsResponse() || r.MaxObject() != 0 || r.Received() != nil || audit.FromContext(t.Context()) != nil {
		t.Error("nil is recorded")
	}
}

// TestUnwanted: nothing is written of a request that the policy does not want.
func TestUnwanted(t *testing.T) {
	sink := &audit.Memory{}
	l := audit.New(audit.Everything(auditv1.LevelNone), sink, audit.Options{})
	r := l.Open()
	r.Annotate("a", "b")
	if r.Begin(request("/")) {
		t.Error("wanted")
	}
	r.Annotate("c", "d")
	r.Code(200)
	if err := r.Received(); err != nil {
		t.Error(err)
	}
	r.Completed()
	if len(sink.Events()) != 0 || l.Stats().Levels["None"] != 1 || l.Stats().Events != 0 {
		t.Errorf("%v %+v", sink.Events(), l.Stats())
	}
}

func TestRequestURI(t *testing.T) {
	for asked, want := range map[string]string{
		"/api/v1/pods":                              "/api/v1/pods",
		"/api/v1/pods?watch=1&a=%20b":               "/api/v1/pods?watch=1&a=%20b",
		"/x?access_token=s3cret":                    "/x?access_token=REDACTED",
		"/x?a=token&access_token=s3cret&b=c&token=": "/x?a=token&access_token=REDACTED&b=c&token=REDACTED",
		"/x?access%5Ftoken=s3cret":                  "/x?access%5Ftoken=REDACTED",
		"/x?my_token=1&access_token":                "/x?my_token=1&access_token=REDACTED",
	} {
		if got := audit.RequestURI(httptest.NewRequest(http.MethodGet, asked, nil).URL); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}

func TestEvent(t *testing.T) {
	sink := &audit.Memory{}
	l := audit.New(audit.Everything(auditv1.LevelRequestResponse), sink, audit.Options{MaxObject: 100})
	r := l.Open()
	audit.Annotate(audit.NewContext(t.Context(), r), "early", "1") // an authenticator's
	q := request("/api/v1/namespaces/x/things?access_token=a")
	q.HTTP.Header.Set("User-Agent", strings.Repeat("u", 2000))
	q.HTTP.Header.Set("X-Forwarded-For", "203.0.113.7, 203.0.113.8")
	q.Attributes = authz.Attributes{
		User: &authn.Identity{Name: "ann", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "create", Group: "g", Version: "v1", Resource: "things", Namespace: "x", ResourceRequest: true,
	}
	if !r.Begin(q) {
		t.Fatal("not wanted")
	}
	r.Annotate("early", "2") // the first value stays
	r.Impersonated(&authn.Identity{Name: "bob", Groups: []string{"h"}}, "impersonate:user-info")
	r.Object(&metav1.ObjectMeta{Namespace: "y", Name: "n", UID: "u", ResourceVersion: "5"})
	r.RequestObject([]byte(`{"kind":"Thing"}` + "\n"))
	r.ResponseObject([]byte(`{"kind":"` + strings.Repeat("x", 100) + `"}`))
	r.Status(&metav1.Status{Status: "Failure", Message: "no", Reason: "Conflict", Code: 409, TypeMeta: metav1.TypeMeta{Kind: "Status"}})
	r.Completed()
	e := sink.Events()[0]
	if e.StageTimestamp.Before(&e.RequestReceivedTimestamp) {
		t.Error("over before it began")
	}
	e.RequestReceivedTimestamp, e.StageTimestamp = metav1.MicroTime{}, metav1.MicroTime{}
	want := auditv1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"}, Level: "RequestResponse", AuditID: "id", Stage: "ResponseComplete",
		RequestURI: "/api/v1/namespaces/x/things?access_token=REDACTED", Verb: "create", SourceIPs: []string{"203.0.113.7", "203.0.113.8", "192.0.2.1"},
		UserAgent:              strings.Repeat("u", 1024) + "...TRUNCATED",
		Annotations:            map[string]string{"early": "1", "audit.k8s.io/truncated": "true"},
		ObjectRef:              &auditv1.ObjectReference{Resource: "things", Namespace: "x", Name: "n", UID: "u", APIGroup: "g", APIVersion: "v1", ResourceVersion: "5"},
		ResponseStatus:         &metav1.Status{Status: "Failure", Message: "no", Reason: "Conflict", Code: 409},
		AuthenticationMetadata: &auditv1.AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"},
	}
	want.User = authnv1.UserInfo{Username: "ann", UID: "1", Groups: []string{"g"}, Extra: map[string]authnv1.ExtraValue{"k": {"v"}}}
	want.ImpersonatedUser = &authnv1.UserInfo{Username: "bob", Groups: []string{"h"}}
	want.RequestObject = &runtime.Unknown{Raw: []byte(`{"kind":"Thing"}`), ContentType: "application/json"}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestManagedFields(t *testing.T) {
	tests := []struct{ name, object, want string }{
		{"object", `{"metadata":{"managedFields":[{"a":1}],"name":"n"},"n":12345678901234567890}`, `{"metadata":{"name":"n"},"n":12345678901234567890}`},
		{"list", `{"items":[{"metadata":{"managedFields":[]}},{"metadata":{"name":"n"}}]}`, `{"items":[{"metadata":{}},{"metadata":{"name":"n"}}]}`},
		{"table", `{"rows":[{"cells":["managedFields"],"object":{"metadata":{"managedFields":[]}}},{"cells":[]}]}`, `{"rows":[{"cells":["managedFields"],"object":{"metadata":{}}},{"cells":[]}]}`},
		{"elsewhere", `{"spec":{"managedFields":1}}`, `{"spec":{"managedFields":1}}`},
		{"none", `{"b":1, "a":2}`, `{"b":1, "a":2}`},
		{"a patch of another shape", `[{"path":"/metadata/managedFields","value":{"managedFields":1}}]`, `[{"path":"/metadata/managedFields","value":{"managedFields":1}}]`},
	}
	yes := true
	policy, err := audit.NewPolicy(auditv1.Policy{Rules: []auditv1.PolicyRule{{Level: auditv1.LevelRequest, OmitManagedFields: &yes}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sink := &audit.Memory{}
			r := audit.New(policy, sink, audit.Options{}).Open()
			r.Begin(request("/"))
			r.RequestObject([]byte(test.object))
			r.ResponseObject([]byte(`{"not":"wanted"}`))
			r.Completed()
			e := sink.Events()[0]
			if got := string(e.RequestObject.Raw); got != test.want || e.ResponseObject != nil {
				t.Errorf("%s %v, want %s", got, e.ResponseObject, test.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	full := errors.New("disk full")
	for _, strict := range []bool{false, true} {
		l := audit.New(audit.Everything(auditv1.LevelMetadata), audit.SinkFunc(func(*auditv1.Event) error { return full }), audit.Options{Strict: strict})
		r := l.Open()
		r.Begin(request("/"))
		err := r.Received()
		if errors.Is(err, audit.ErrNotStored) != strict {
			t.Errorf("strict %v: %v", strict, err)
		}
		r.Completed() // not refused: it is too late
		want := audit.Stats{Events: 2, Failures: 2, Levels: map[string]int64{"None": 0, "Metadata": 1, "Request": 0, "RequestResponse": 0}}
		if strict {
			want.Rejected = 1
		}
		if diff := cmp.Diff(want, l.Stats()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestConcurrentAnnotations: plugins of a request may work in parallel.
func TestConcurrentAnnotations(t *testing.T) {
	sink := &audit.Memory{}
	r := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}).Open()
	r.Begin(request("/"))
	ctx := audit.NewContext(t.Context(), r)
	var plugins sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d"} {
		plugins.Go(func() { audit.Annotate(ctx, key, "1") })
	}
	r.Started()
	plugins.Wait()
	r.Completed()
	if events := sink.Events(); len(events) != 2 || len(events[1].Annotations) != 4 {
		t.Errorf("%+v", events)
	}
}
