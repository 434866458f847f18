package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/authn"
)

const truncated = "audit.k8s.io/truncated"

// Record is the record of one request. The methods of a nil Record, and of one that the policy does not want, do nothing.
type Record struct {
	log             *Log
	rule            Rule
	unauthenticated bool

	mu    sync.Mutex
	event auditv1.Event
}

type contextKey struct{}

// NewContext returns a context with the record, for those that add to it.
func NewContext(ctx context.Context, r *Record) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the record that NewContext put there, or nil.
func FromContext(ctx context.Context) *Record {
	r, _ := ctx.Value(contextKey{}).(*Record)
	return r
}

// Annotate adds an annotation to the record of the request that ctx belongs to, if it is recorded.
// Authenticators and admission plugins can explain their decisions by it; their keys begin with a domain of their own.
func Annotate(ctx context.Context, key, value string) { FromContext(ctx).Annotate(key, value) }

// Begin asks the policy whether the request is recorded, and describes it. It is called once, before the methods below. It
// gives nothing to the sink.
func (r *Record) Begin(q *Request) bool {
	if r == nil {
		return false
	}
	rule := r.log.policy.Load().Rule(&q.Attributes)
	r.log.count(rule.Level)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule, r.unauthenticated = rule, unauthenticated(q.Attributes.User)
	if rule.Level == auditv1.LevelNone {
		return false
	}
	r.describe(q)
	return true
}

// off tells whether the policy does not want the record, or has not been asked.
func (r *Record) off() bool {
	return r == nil || r.rule.Level == "" || r.rule.Level == auditv1.LevelNone
}

func (r *Record) describe(q *Request) {
	a := &q.Attributes
	annotations := r.event.Annotations
	agent := q.HTTP.UserAgent()
	if len(agent) > maxUserAgent {
		agent = agent[:maxUserAgent] + "...TRUNCATED"
	}
	r.event = auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    r.rule.Level, AuditID: types.UID(cut(q.ID, maxName)), RequestURI: cut(RequestURI(q.HTTP.URL), maxURI), Verb: cut(a.Verb, maxVerb), UserAgent: agent,
		RequestReceivedTimestamp: metav1.NewMicroTime(q.Received), Annotations: annotations,
	}
	var ips []string
	for _, ip := range utilnet.SourceIPs(q.HTTP) {
		ips = append(ips, ip.String())
	}
	var omitted string
	r.event.SourceIPs, omitted = sources(ips)
	r.omit(omitted)
	if a.User != nil {
		r.event.User, omitted = userInfo(a.User, "user")
		r.omit(omitted)
	}
	if a.ResourceRequest {
		r.event.ObjectRef = &auditv1.ObjectReference{
			Namespace: cut(a.Namespace, maxName), Name: cut(a.Name, maxName), Resource: cut(a.Resource, maxName),
			Subresource: cut(a.Subresource, maxName), APIGroup: cut(a.Group, maxName), APIVersion: cut(a.Version, maxName),
		}
	}
}

// omit adds what was left out to the event. The caller holds the lock.
func (r *Record) omit(what string) {
	if what == "" {
		return
	}
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	if had := r.event.Annotations[cutAnnotation]; had != "" {
		what = had + ", " + what
	}
	r.event.Annotations[cutAnnotation] = what
}

// RequestURI returns a URL as it was requested, without the token that may be in it.
func RequestURI(u *url.URL) string {
	if !strings.Contains(u.RawQuery, "token") {
		return u.RequestURI()
	}
	clean := *u
	terms := strings.Split(u.RawQuery, "&")
	for i, term := range terms {
		name, _, _ := strings.Cut(term, "=")
		if plain, err := url.QueryUnescape(name); err != nil || plain == "access_token" || plain == "token" {
			terms[i] = name + "=REDACTED"
		}
	}
	clean.RawQuery = strings.Join(terms, "&")
	return clean.RequestURI()
}

// Received gives the sink the event that the request was received. It fails only in a strict Log, with ErrNotStored: then
// the request must not be served.
func (r *Record) Received() error { return r.stage(auditv1.StageRequestReceived) }

// Started gives the sink the event that the response's headers were sent. It is for long-running requests and for those that
// were refused before it was known who makes them.
func (r *Record) Started() { _ = r.stage(auditv1.StageResponseStarted) } // only Received fails

// Completed gives the sink the event that the response is complete.
func (r *Record) Completed() {
	if r.off() {
		return
	}
	r.mu.Lock()
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	}
	r.mu.Unlock()
	_ = r.stage(auditv1.StageResponseComplete) // only Received fails
}

// Panicked gives the sink the event that the request's handler panicked with p.
func (r *Record) Panicked(p any) {
	if r.off() {
		return
	}
	r.Status(&metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", p),
	})
	_ = r.stage(auditv1.StagePanic) // only Received fails
}

// stage gives the event to the sink, unless the policy omits the stage.
func (r *Record) stage(stage auditv1.Stage) error {
	if r.off() || slices.Contains(r.rule.OmitStages, stage) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.Stage = stage
	r.event.StageTimestamp = r.event.RequestReceivedTimestamp
	if stage != auditv1.StageRequestReceived {
		r.event.StageTimestamp = metav1.NewMicroTime(time.Now())
	}
	return r.log.write(&r.event, r.unauthenticated)
}

// Annotate adds an annotation. Later values of the same key are ignored.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	value, rest := cutAnnotationValue(value)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rule.Level == auditv1.LevelNone {
		return
	}
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	if had, ok := r.event.Annotations[key]; ok {
		if had != value {
			r.log.log.Warn("audit annotation is set already", "audit-id", string(r.event.AuditID), "key", key)
		}
		return
	}
	r.event.Annotations[key] = value
	if rest > 0 {
		r.omit(fmt.Sprintf("%d entries of %s", rest, cut(key, maxName)))
	}
}

// Impersonated records whom the user acts as. constraint is the verb that allowed it (KEP-5284), empty for the unconstrained
// one.
func (r *Record) Impersonated(id *authn.Identity, constraint string) {
	if r.off() {
		return
	}
	u, omitted := userInfo(id, "impersonatedUser")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ImpersonatedUser = &u
	r.omit(omitted)
	if constraint != "" {
		r.event.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// WantsRequest tells whether the request's object is recorded.
func (r *Record) WantsRequest() bool {
	return r != nil && (r.rule.Level == auditv1.LevelRequest || r.rule.Level == auditv1.LevelRequestResponse)
}

// WantsResponse tells whether the response's object is recorded.
func (r *Record) WantsResponse() bool {
	return r != nil && r.rule.Level == auditv1.LevelRequestResponse
}

// MaxObject is the largest size of an object that is recorded, in bytes.
func (r *Record) MaxObject() int {
	if r == nil {
		return 0
	}
	return r.log.maxObject
}

// Object completes the reference to the request's object in the event from the object's metadata.
func (r *Record) Object(meta metav1.Object) {
	if r.off() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.event.ObjectRef == nil {
		r.event.ObjectRef = &auditv1.ObjectReference{}
	}
	ref := r.event.ObjectRef
	for _, f := range []struct {
		field *string
		value string
	}{
		{&ref.Namespace, meta.GetNamespace()}, {&ref.Name, meta.GetName()}, {(*string)(&ref.UID), string(meta.GetUID())},
		{&ref.ResourceVersion, meta.GetResourceVersion()},
	} {
		if *f.field == "" {
			*f.field = cut(f.value, maxName)
		}
	}
}

// RequestObject records the body of the request, as JSON, if the policy wants it. It does not keep data.
func (r *Record) RequestObject(data []byte) {
	if !r.WantsRequest() {
		return
	}
	object := r.object(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.RequestObject = object
}

// ResponseObject records the body of the response, as JSON, if the policy wants it; nil stands for one that was too large to
// keep. It does not keep data.
func (r *Record) ResponseObject(data []byte) {
	if !r.WantsResponse() {
		return
	}
	object := r.object(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseObject = object
}

// object returns what is recorded of a JSON document, nil if it is too large.
func (r *Record) object(data []byte) *runtime.Unknown {
	if data == nil || len(data) > r.log.maxObject {
		r.Annotate(truncated, "true")
		return nil
	}
	if r.rule.OmitManagedFields {
		data = withoutManagedFields(data)
	}
	return &runtime.Unknown{Raw: bytes.Clone(bytes.TrimSpace(data)), ContentType: runtime.ContentTypeJSON}
}

// Status records the Status in the response.
func (r *Record) Status(s *metav1.Status) {
	if r.off() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseStatus = statusOf(s)
}

// Code records the response's HTTP code.
func (r *Record) Code(code int) {
	if r.off() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{}
	}
	r.event.ResponseStatus.Code = int32(code)
}

// withoutManagedFields removes metadata.managedFields from an object, from the items of a list and from the rows of a table.
// It returns other documents as they are.
func withoutManagedFields(data []byte) []byte {
	if !bytes.Contains(data, []byte(`"managedFields"`)) {
		return data
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return data
	}
	clean := func(object any) {
		m, _ := object.(map[string]any)
		meta, _ := m["metadata"].(map[string]any)
		delete(meta, "managedFields")
	}
	clean(document)
	items, _ := document["items"].([]any)
	for _, item := range items {
		clean(item)
	}
	rows, _ := document["rows"].([]any)
	for _, row := range rows {
		m, _ := row.(map[string]any)
		clean(m["object"])
	}
	short, err := json.Marshal(document)
	if err != nil {
		return data
	}
	return short
}
