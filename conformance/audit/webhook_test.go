package audit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	internal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	auditupstream "k8s.io/apiserver/pkg/audit"
	utilwebhook "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	webhookupstream "k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
)

// TestWebhook: a server gets the same requests from both, in whatever way it answers, also when events are too large or too many, and
// when both end.
func TestWebhook(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // upstream logs every event that it loses
	requests, refused, several := 0, 0, 0
	lost := map[string]int64{}
	for seed := range uint64(300) {
		s := newStory(seed)
		theirs, ours := s.play(t, upstreams), s.play(t, keelsons)
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("story %d, %+v (-upstream +keelson)\n%s", seed, s.options(), diff)
		}
		requests += len(ours.Requests)
		for _, r := range ours.Requests {
			if strings.Contains(r.Body, `},{"level":`) {
				several++
			}
		}
		for name, n := range ours.Lost {
			lost[name] += n
		}
		for _, r := range ours.Refused {
			if r {
				refused++
			}
		}
	}
	if requests < 3000 || several < 300 || refused < 20 || lost["webhook"] < 100 || lost["buffered"] < 20 || lost["truncate"] < 100 {
		t.Errorf("only %d requests, %d of several events, %d refusals, %v lost: the test says little", requests, several, refused, lost)
	}
}

// story is a random configuration of a webhook, and what happens.
type story struct {
	seed     uint64
	mode     webhook.Mode
	batching webhook.Batching
	truncate *webhook.Truncate
	steps    []step
	answers  []int  // statuses, in blocking modes; 0 is none within the time
	after    string // Retry-After
	broken   bool   // the server fails always, in mode batch
}

type step struct {
	pause  time.Duration
	events []*auditv1.Event
}

func (s *story) options() webhook.Options {
	return webhook.Options{Mode: s.mode, Batching: s.batching, Truncate: s.truncate, InitialBackoff: time.Second, FlushTimeout: time.Hour}
}

func newStory(seed uint64) *story {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &story{seed: seed, mode: webhook.Modes()[r.IntN(3)]}
	s.batching = webhook.Batching{
		BufferSize: 1 + r.IntN(8), MaxSize: 1 + r.IntN(6), MaxWait: time.Duration(1+r.IntN(40)) * time.Second, QPS: []float32{0.02, 0.1, 1, 10}[r.IntN(4)], Burst: 1 + r.IntN(5),
		NoThrottle: r.IntN(3) == 0,
	}
	if r.IntN(2) == 0 {
		s.truncate = &webhook.Truncate{MaxEventSize: int64(300 + r.IntN(1500))}
	}
	for n := range 1 + r.IntN(6) {
		// The odd thousandths keep steps apart from what both do meanwhile.
		one := step{pause: time.Duration(r.IntN(60))*time.Second + time.Duration(7+n)*time.Millisecond}
		if s.mode != webhook.Batch || r.IntN(8) > 0 {
			for range r.IntN(8) {
				one.events = append(one.events, randomEvent(r))
			}
		}
		s.steps = append(s.steps, one)
	}
	for range r.IntN(12) {
		answer := []int{200, 200, 201, 204, 206, 301, 400, 401, 404, 409, 429, 500, 503, 0}[r.IntN(14)]
		s.answers = append(s.answers, slices.Repeat([]int{answer}, 1+r.IntN(6))...)
	}
	s.broken = r.IntN(4) == 0
	s.after = []string{"", "", "1", "4"}[r.IntN(4)] // not 3: the tenth retry would come just when the time is over
	return s
}

func randomEvent(r *rand.Rand) *auditv1.Event {
	levels := []auditv1.Level{auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}
	at := metav1.NewMicroTime(time.Unix(1e9, int64(r.IntN(1e9))))
	e := &auditv1.Event{
		Level: levels[r.IntN(3)], AuditID: types.UID(fmt.Sprint(r.Uint64())), Stage: auditv1.StageResponseComplete, RequestURI: "/api/<" + strings.Repeat("u", r.IntN(400)) + "&>",
		Verb: "create", User: authnv1.UserInfo{Username: "ann \u2028 é", Groups: []string{"a", "b"}}, RequestReceivedTimestamp: at, StageTimestamp: at,
	}
	e.APIVersion, e.Kind = "audit.k8s.io/v1", "Event"
	if r.IntN(2) == 0 {
		e.Annotations = map[string]string{"z": "1", "authorization.k8s.io/decision": "allow"}
	}
	if r.IntN(2) == 0 {
		e.ObjectRef = &auditv1.ObjectReference{Resource: "pods", Namespace: "default", APIVersion: "v1"}
		e.ResponseStatus = &metav1.Status{Code: 201}
	}
	if e.Level != auditv1.LevelMetadata && r.IntN(2) == 0 {
		e.RequestObject = &runtime.Unknown{Raw: []byte(`{"kind":"Pod","text":"` + strings.Repeat("<", r.IntN(1000)) + `"}`), ContentType: runtime.ContentTypeJSON}
	}
	return e
}

// request is what the server gets.
type request struct {
	Method, URL, ContentType, Accept, Body string
}

// outcome is what both are compared by.
type outcome struct {
	Requests []request
	Refused  []bool           // of writes, in mode blocking-strict
	Lost     map[string]int64 // by plugin
}

// backend is one of both.
type backend interface {
	write(e *auditv1.Event) bool
	run(ctx context.Context) // until the end, with what is left
	lost() map[string]int64
}

func (s *story) play(t *testing.T, start func(t *testing.T, s *story, dial dialer) backend) outcome {
	t.Helper()
	var o outcome
	synctest.Test(t, func(t *testing.T) {
		v := &server{accepted: make(chan net.Conn), closed: make(chan struct{})}
		answers := s.answers
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			v.mu.Lock()
			o.Requests = append(o.Requests, request{r.Method, r.URL.String(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)})
			answer := http.StatusOK
			// Posts that go on at once would take the answers in any order.
			if s.mode != webhook.Batch && len(answers) > 0 {
				answer, answers = answers[0], answers[1:]
			} else if s.mode == webhook.Batch && s.broken {
				answer = http.StatusInternalServerError
			}
			v.mu.Unlock()
			if answer == 0 {
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // not even a late answer
			}
			if s.after != "" {
				w.Header().Set("Retry-After", s.after)
			}
			w.WriteHeader(answer)
		}))
		_ = h.Listener.Close()
		h.Listener = v
		h.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.Start()
		defer h.Close()
		defer h.CloseClientConnections()
		b := start(t, s, v.dial)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); b.run(ctx) }()
		synctest.Wait()
		for _, step := range s.steps {
			for _, e := range step.events {
				o.Refused = append(o.Refused, !b.write(e.DeepCopy()) && s.mode == webhook.BlockingStrict)
				synctest.Wait() // batches do not depend on who is faster
			}
			time.Sleep(step.pause)
		}
		cancel()
		<-ran
		o.Lost = b.lost()
	})
	if s.mode == webhook.Batch { // posts go on at once, and arrive in any order
		slices.SortFunc(o.Requests, func(a, b request) int { return strings.Compare(a.Body, b.Body) })
	}
	return o
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// server is a listener in memory.
type server struct {
	accepted chan net.Conn
	closed   chan struct{}
	mu       sync.Mutex
}

func (v *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	theirs, own := net.Pipe()
	select {
	case v.accepted <- own:
		return theirs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (v *server) Accept() (net.Conn, error) {
	select {
	case c := <-v.accepted:
		return c, nil
	case <-v.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (v *server) Close() error {
	select {
	case <-v.closed:
	default:
		close(v.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (v *server) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// plugins are upstream's.
type plugins struct {
	auditupstream.Backend
	before map[string]int64 // its counts are those of the process
}

// upstreams is put together as kube-apiserver does.
func upstreams(t *testing.T, s *story, dial dialer) backend {
	t.Helper()
	file := filepath.Join(t.TempDir(), "webhook.conf")
	if err := os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://collector/events"}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := webhookupstream.NewBackend(file, auditv1.SchemeGroupVersion, utilwebhook.DefaultRetryBackoffWithInitialDelay(time.Second), dial)
	if err != nil {
		t.Fatal(err)
	}
	if s.mode == webhook.Batch {
		c := s.batching
		b = buffered.NewBackend(b, buffered.BatchConfig{
			BufferSize: c.BufferSize, MaxBatchSize: c.MaxSize, MaxBatchWait: c.MaxWait, ThrottleEnable: !c.NoThrottle, ThrottleQPS: c.QPS, ThrottleBurst: c.Burst, AsyncDelegate: true,
		})
	}
	if s.truncate != nil {
		b = truncate.NewBackend(b, truncate.Config{MaxEventSize: s.truncate.MaxEventSize, MaxBatchSize: 10 << 20}, auditv1.SchemeGroupVersion)
	}
	return plugins{b, counts()}
}

func (u plugins) write(e *auditv1.Event) bool {
	var converted internal.Event
	if err := auditv1.Convert_v1_Event_To_audit_Event(e, &converted, nil); err != nil {
		panic(err)
	}
	return u.ProcessEvents(&converted)
}

func (u plugins) run(ctx context.Context) {
	if err := u.Run(ctx.Done()); err != nil {
		panic(err)
	}
	<-ctx.Done()
	u.Shutdown()
}

func (u plugins) lost() map[string]int64 {
	lost := map[string]int64{}
	for name, n := range counts() {
		if n -= u.before[name]; n > 0 {
			lost[name] = n
		}
	}
	return lost
}

// counts are upstream's metrics of lost events.
func counts() map[string]int64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	all := map[string]int64{}
	for _, f := range families {
		if f.GetName() == "apiserver_audit_error_total" {
			for _, m := range f.GetMetric() {
				all[m.GetLabel()[0].GetValue()] = int64(m.GetCounter().GetValue())
			}
		}
	}
	return all
}

type keelson struct{ *webhook.Sink }

func keelsons(t *testing.T, s *story, dial dialer) backend {
	t.Helper()
	sink, err := webhook.New(&rest.Config{Host: "http://collector/events", Dial: dial}, s.options())
	if err != nil {
		t.Fatal(err)
	}
	return keelson{sink}
}

func (k keelson) write(e *auditv1.Event) bool { return k.Write(e) == nil }

func (k keelson) run(ctx context.Context) {
	if err := k.Run(ctx); err != nil {
		panic(err)
	}
}

func (k keelson) lost() map[string]int64 {
	lost := map[string]int64{}
	maps.Copy(lost, k.Failures())
	return lost
}
