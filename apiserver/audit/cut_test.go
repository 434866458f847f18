package audit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// TestCut: whatever a client says, its event is small, and tells how much is missing.
func TestCut(t *testing.T) {
	long := strings.Repeat("x", 900_000)
	many := make([]string, 50_000)
	for i := range many {
		many[i] = fmt.Sprint("group", i)
	}
	nasty := &authn.Identity{
		Name: long, UID: long, Groups: many,
		Extra: map[string][]string{"a": {"1"}, "b": {long, long}, "c": many, "d": {"2"}, long: {"3"}},
	}
	sink := &audit.Memory{}
	r := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}).Open()
	q := &audit.Request{HTTP: httptest.NewRequest(http.MethodGet, "/"+long+"?"+long, nil), ID: long}
	q.HTTP.Header.Set("User-Agent", long)
	q.HTTP.Header.Set("X-Forwarded-For", strings.Repeat("203.0.113.7,", 50_000)+"203.0.113.8")
	q.Attributes = authz.Attributes{
		User: nasty, Verb: long, Group: long, Version: long, Resource: long, Subresource: long, Namespace: long, Name: long, ResourceRequest: true,
	}
	r.Begin(q)
	r.Annotate("reason", long)
	r.Impersonated(nasty, "")
	r.Object(&metav1.ObjectMeta{UID: "u", ResourceVersion: long})
	status := &metav1.Status{Message: long, Details: &metav1.StatusDetails{Name: long, Group: long, Kind: long, UID: "u"}}
	for range 1000 {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: long, Field: long})
	}
	r.Status(status)
	r.Completed()
	if len(status.Details.Causes) != 1000 || status.Details.Name != long {
		t.Error("the Status of the answer changed")
	}
	e := sink.Events()[0]
	line, err := json.Marshal(e)
	if err != nil || len(line) > 128<<10 {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	x := func(n, of int) string { return strings.Repeat("x", n) + fmt.Sprintf("...[%d bytes cut]", of-n) }
	for _, c := range []struct{ what, got, want string }{
		{"URI", e.RequestURI, "/" + x(2047, 2*len(long)+1)},
		{"ID", string(e.AuditID), x(512, len(long))},
		{"verb", e.Verb, x(64, len(long))},
		{"resource", e.ObjectRef.Resource, x(512, len(long))},
		{"subresource", e.ObjectRef.Subresource, x(512, len(long))},
		{"group", e.ObjectRef.APIGroup, x(512, len(long))},
		{"version", e.ObjectRef.APIVersion, x(512, len(long))},
		{"namespace", e.ObjectRef.Namespace, x(512, len(long))},
		{"name", e.ObjectRef.Name, x(512, len(long))},
		{"resource version", e.ObjectRef.ResourceVersion, x(512, len(long))},
		{"user", e.User.Username, x(512, len(long))},
		{"UID", e.User.UID, x(512, len(long))},
		{"extra", fmt.Sprint(e.User.Extra["a"]), "[1]"},
		{"a long extra", fmt.Sprint(e.User.Extra["b"]), fmt.Sprint([]string{x(512, len(long)), x(512, len(long))})},
		{"message", e.ResponseStatus.Message, x(1024, len(long))},
		{"detail", e.ResponseStatus.Details.Name, x(512, len(long))},
		{"causes", e.ResponseStatus.Details.Causes[16].Message, "...[984 causes cut]"},
		{"annotation", e.Annotations["reason"], x(4096, len(long))},
		{"nearest source", e.SourceIPs[15], "192.0.2.1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %.80s... of %d bytes, want %d", c.what, c.got, len(c.got), len(c.want))
		}
	}
	if n := len(e.User.Groups); n < 1000 || e.User.Groups[n-1] != fmt.Sprint("group", n-1) || len(e.SourceIPs) != 16 {
		t.Errorf("%d groups, %d sources", n, len(e.SourceIPs))
	}
	rest := len(many) - len(e.User.Groups)
	want := fmt.Sprintf("49986 source IPs, %d groups of user, extra of user under 2 keys, %[1]d groups of impersonatedUser, extra of impersonatedUser under 2 keys", rest)
	if got := e.Annotations["audit.keelson.dev/cut"]; got != want {
		t.Errorf("what was cut: %s, want %s", got, want)
	}
}

// TestCutWholeCharacters: what is cut stays text.
func TestCutWholeCharacters(t *testing.T) {
	sink := &audit.Memory{}
	r := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{}).Open()
	q := request("/")
	q.Attributes.User = &authn.Identity{Name: "x" + strings.Repeat("ü", 300)}
	r.Begin(q)
	r.Completed()
	if got, want := sink.Events()[0].User.Username, "x"+strings.Repeat("ü", 255)+"...[90 bytes cut]"; got != want {
		t.Error(got)
	}
}

// TestLargeObject: an object that is too large is left out, and the event says so.
func TestLargeObject(t *testing.T) {
	sink := &audit.Memory{}
	r := audit.New(audit.Everything(auditv1.LevelRequestResponse), sink, audit.Options{}).Open()
	r.Begin(request("/"))
	r.RequestObject([]byte(`"` + strings.Repeat("x", 1<<20) + `"`))
	r.Completed()
	if e := sink.Events()[0]; e.RequestObject != nil || e.Annotations["audit.k8s.io/truncated"] != "true" {
		t.Errorf("%v %v", e.RequestObject, e.Annotations)
	}
}
