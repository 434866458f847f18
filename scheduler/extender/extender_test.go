package extender_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/extender"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// program is an extender over TLS that gives prepared answers and keeps the questions.
type program struct {
	*httptest.Server
	asked  []string // verb and body
	answer func(w http.ResponseWriter)
}

func serve(t *testing.T, answer string) *program {
	p := &program{answer: func(w http.ResponseWriter) { _, _ = w.Write([]byte(answer)) }}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("asked with %s %v: %v", r.Method, r.Header, err)
		}
		p.asked = append(p.asked, r.URL.Path+" "+string(body))
		p.answer(w)
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

// config returns one that asks the program everything.
func (p *program) config() extender.Config {
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	return extender.Config{
		URL: p.URL + "/base/", Filter: "filter", Prioritize: "prioritize", Preempt: "preempt", Bind: "bind", Weight: 2,
		TLS: &tls.Config{RootCAs: roots},
	}
}

func start(t *testing.T, c extender.Config) *extender.Extender {
	e := extender.New(c)
	t.Cleanup(e.CloseIdleConnections)
	return e
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
}

func nodes(names ...string) (all []*corev1.Node) {
	for _, name := range names {
		all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return all
}

// decide returns the decision of a profile with nothing but the extender.
func decide(e *extender.Extender, p *corev1.Pod, names ...string) scheduler.Decision {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: e, Weight: e.Weight()}}}
	return profile.Schedule(p, scheduler.NewSnapshot(nodes(names...), nil))
}

// verdicts returns the refusals, or the scores.
func verdicts(d scheduler.Decision) []string {
	var all []string
	for _, v := range d.Verdicts {
		text := fmt.Sprintf("%s %d", v.Node, v.Total)
		if v.Refusal != nil {
			text = fmt.Sprintf("%s refused by extender: %v, unresolvable %t", v.Node, v.Refusal, v.Refusal.Unresolvable)
		}
		all = append(all, text)
	}
	return all
}

func TestFilter(t *testing.T) {
	const question = `/base/filter {"Pod":{"metadata":{"name":"p","namespace":"ns","uid":"uid-p"},"spec":{"containers":null},"status":{}},"Nodes":null,"NodeNames":["a","b","c","d"]}`
	const mixed = `{"Nodes":null,"NodeNames":["a"],"FailedNodes":{"b":"too warm","c":"too cold"},"FailedAndUnresolvableNodes":{"c":"broken"},"Error":""}`
	want := []string{
		"a 0", "b refused by extender: too warm, unresolvable false", "c refused by extender: broken, unresolvable true",
		"d refused by extender: , unresolvable true",
	}
	for name, c := range map[string]struct {
		cache  bool
		answer string
		want   []string
		err    string
	}{
		"by name":                 {true, mixed, want, ""},
		"by node":                 {false, `{"Nodes":{"items":[{"metadata":{"name":"a"}}]},"FailedNodes":{"b":"too warm"},"FailedAndUnresolvableNodes":{"c":"broken"}}`, want, ""},
		"nodes, not names":        {true, `{"Nodes":{"items":[{"metadata":{"name":"a"}}]},"FailedNodes":{"b":"too warm"},"FailedAndUnresolvableNodes":{"c":"broken"}}`, want, ""},
		"names are not asked for": {false, mixed, nil, "0/4 nodes are available: 1 broken, 1 too warm."},
		"lower case":              {true, `{"nodenames":["a","b","c","d"]}`, []string{"a 0", "b 0", "c 0", "d 0"}, ""},
		"none":                    {true, `{"NodeNames":[],"FailedNodes":{"a":"x","b":"x","c":"y","d":"y"}}`, nil, "0/4 nodes are available: 2 x, 2 y."},
		"its error":               {true, `{"NodeNames":["a"],"Error":"out of order"}`, nil, "out of order"},
		"unknown node":            {true, `{"NodeNames":["a","x"]}`, nil, `extender "URL/base/" claims a filtered node "x" which is not found in the input node list`},
		"unknown node, by node":   {false, `{"Nodes":{"items":[{"metadata":{"name":"x"}}]}}`, nil, `claims a filtered node "x" which is not found in the input node list`},
		"not JSON":                {true, `<html>`, nil, "invalid character '<' looking for beginning of value"},
		"nothing":                 {true, ``, nil, "EOF"},
		"huge":                    {true, `{"Error":"` + strings.Repeat("x", 5<<20) + `"}`, nil, fmt.Sprintf("failed filter with extender at URL URL/base/filter: the answer has more than %d bytes", 4<<20+2*(len(question)-len("/base/filter ")))},
	} {
		p := serve(t, c.answer)
		config := p.config()
		config.Prioritize, config.NodeCacheCapable = "", c.cache
		d := decide(start(t, config), pod("p"), "a", "b", "c", "d")
		switch {
		case c.err != "" && (d.Err == nil || !strings.Contains(strings.ReplaceAll(d.Err.Error(), p.URL, "URL"), c.err)):
			t.Errorf("%s: got %v, want %s", name, d.Err, c.err)
		case c.err == "":
			if diff := cmp.Diff(c.want, verdicts(d)); diff != "" || d.Err != nil {
				t.Errorf("%s: %v (-want +got)\n%s", name, d.Err, diff)
			}
		}
		if c.cache && (len(p.asked) != 1 || p.asked[0] != question) {
			t.Errorf("%s: asked %q, want %s", name, p.asked, question)
		}
		if !c.cache && !strings.Contains(p.asked[0], `"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}`) {
			t.Errorf("%s: asked %q", name, p.asked)
		}
	}
}

// TestFailures: a program that does not answer fails the attempt, or is ignored.
func TestFailures(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, c := range map[string]struct {
		change func(*program, *extender.Config)
		want   string
	}{
		"status": {func(p *program, _ *extender.Config) {
			p.answer = func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }
		},
			"failed filter with extender at URL URL/base/filter, code 500"},
		"slow": {func(p *program, c *extender.Config) {
			c.Timeout = time.Millisecond
			p.answer = func(http.ResponseWriter) { <-block }
		}, `Post "URL/base/filter": `},
		"unknown authority": {func(_ *program, c *extender.Config) { c.TLS = nil }, "certificate"},
		"other name":        {func(_ *program, c *extender.Config) { c.TLS.ServerName = "other.example" }, "other.example"},
		"gone":              {func(p *program, _ *extender.Config) { p.Listener.Close() }, "refused"},
		"no URL":            {func(_ *program, c *extender.Config) { c.URL = "https://[" }, "missing ']' in host"},
		"cut short": {func(p *program, _ *extender.Config) {
			p.answer = func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "100")
				_, _ = io.WriteString(w, `{"NodeNames":["a"]}`)
			}
		}, "unexpected EOF"},
	} {
		for _, ignorable := range []bool{false, true} {
			p := serve(t, `{}`)
			config := p.config()
			config.Ignorable, config.Prioritize = ignorable, ""
			c.change(p, &config)
			d := decide(start(t, config), pod("p"), "a", "b")
			if ignorable && (d.Err != nil || d.Node == "") {
				t.Errorf("%s, ignorable: %v", name, d.Err)
			}
			if !ignorable && (d.Err == nil || !strings.Contains(strings.ReplaceAll(d.Err.Error(), p.URL, "URL"), c.want)) {
				t.Errorf("%s: got %v, want %s", name, d.Err, c.want)
			}
		}
	}
}

// TestConnections: they are of HTTP/2 where a program speaks it, and last as long as upstream's.
func TestConnections(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Minute: time.Minute} {
		question, handshake, idle := start(t, extender.Config{Timeout: said}).Limits()
		if question != want || handshake != 10*time.Second || idle != 90*time.Second {
			t.Errorf("%s: %s, %s and %s", said, question, handshake, idle)
		}
	}
	protocol := make(chan string, 1)
	p := &program{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol <- r.Proto
		_, _ = io.WriteString(w, "{}")
	}))}
	p.EnableHTTP2 = true
	p.StartTLS()
	t.Cleanup(p.Close)
	if err := start(t, p.config()).Bind(t.Context(), pod("p"), "a"); err != nil {
		t.Fatal(err)
	}
	if got := <-protocol; got != "HTTP/2.0" {
		t.Errorf("asked with %s", got)
	}
}

func TestPrioritize(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   []string
		err    string
	}{
		"scores":       {`[{"Host":"a","Score":10},{"Host":"b","Score":3}]`, []string{"a 200", "b 60", "c 0"}, ""},
		"unknown node": {`[{"Host":"x","Score":10},{"Host":"b","Score":3}]`, []string{"a 0", "b 60", "c 0"}, ""},
		"failure":      {`[`, []string{"a 0", "b 0", "c 0"}, ""},
		"zero":         {`[{"Host":"a","Score":0},{"Host":"b","Score":1}]`, []string{"a 0", "b 20", "c 0"}, ""},
		"too good":     {`[{"Host":"a","Score":11}]`, nil, `extender "URL/base/" returns an invalid score 11 for node "a", it should be in the range of [0, 10]`},
		"too bad":      {`[{"Host":"a","Score":-1}]`, nil, `returns an invalid score -1 for node "a"`},
	} {
		p := serve(t, c.answer)
		config := p.config()
		config.Filter, config.NodeCacheCapable = "", true
		d := decide(start(t, config), pod("p"), "a", "b", "c")
		if c.err != "" {
			if d.Err == nil || !strings.Contains(strings.ReplaceAll(d.Err.Error(), p.URL, "URL"), c.err) {
				t.Errorf("%s: got %v, want %s", name, d.Err, c.err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, verdicts(d)); diff != "" || d.Err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, d.Err, diff)
		}
		if s := d.Verdicts[0].Scores; len(s) != 1 || s[0].Skipped != (name == "failure") || s[0].Priority != config.URL {
			t.Errorf("%s: scores %+v", name, s)
		}
	}
}

// TestNothingToAsk: a program without the verbs for choosing a node is not asked about any pod.
func TestNothingToAsk(t *testing.T) {
	for c, want := range map[*extender.Config]bool{
		{}: true, {Bind: "bind"}: true, {Filter: "filter"}: false, {Prioritize: "prioritize"}: false, {Preempt: "preempt"}: false,
	} {
		if got := start(t, *c).SkipAsk(pod("p")); got != want {
			t.Errorf("%+v: skipped is %t", c, got)
		}
	}
}

// TestManagedResources: only pods that name a managed resource are asked about.
func TestManagedResources(t *testing.T) {
	list := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	for name, c := range map[string]struct {
		spec  corev1.PodSpec
		asked bool
	}{
		"none":    {corev1.PodSpec{Containers: []corev1.Container{{}}}, false},
		"request": {corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: corev1.ResourceRequirements{Requests: list}}}}, true},
		"limit":   {corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: list}}}}, true},
		"init":    {corev1.PodSpec{InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}, true},
	} {
		p := serve(t, `{"NodeNames":["a","b"]}`)
		config := p.config()
		config.ManagedResources, config.NodeCacheCapable, config.Prioritize = []string{"example.com/fpga", "example.com/gpu"}, true, ""
		e := start(t, config)
		asking := pod("p")
		asking.Spec = c.spec
		if d := decide(e, asking, "a", "b"); d.Err != nil || (len(p.asked) > 0) != c.asked {
			t.Errorf("%s: %v, asked %v", name, d.Err, p.asked)
		}
		p.answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) }
		if err := e.Bind(t.Context(), asking, "a"); errors.Is(err, scheduler.ErrDeclined) == c.asked {
			t.Errorf("%s: binding: %v", name, err)
		}
	}
}

// TestNoVerbs: what has no verb is not asked, whoever wants to know.
func TestNoVerbs(t *testing.T) {
	p := serve(t, `{"Error":"asked"}`)
	config := p.config()
	config.Filter, config.Prioritize, config.Preempt, config.Bind = "", "", "", ""
	e, infos := start(t, config), []*scheduler.NodeInfo{scheduler.NewNodeInfo(nodes("a")[0])}
	if refusals, err := e.Winnow(t.Context(), pod("p"), infos); err != nil || len(refusals) != 1 || refusals[0] != nil {
		t.Errorf("winnowed: %v, %v", refusals, err)
	}
	if scores, err := e.Rate(t.Context(), pod("p"), infos); err != nil || scores != nil {
		t.Errorf("rated: %v, %v", scores, err)
	}
	if e.Weight() != 0 || e.Preempts() || len(p.asked) > 0 {
		t.Errorf("weight %d, preempts: %t, asked %q", e.Weight(), e.Preempts(), p.asked)
	}
	if e := start(t, p.config()); e.Weight() != 2 || !e.Preempts() {
		t.Errorf("with verbs: weight %d, preempts: %t", e.Weight(), e.Preempts())
	}
}

// TestCloseIdleConnections: connections are kept between questions, until they are not needed any more.
func TestCloseIdleConnections(t *testing.T) {
	closed := make(chan struct{}, 2)
	p := &program{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "{}") }))}
	opened := 0
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened++
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	p.StartTLS()
	t.Cleanup(p.Close)
	e := start(t, p.config())
	for range 2 {
		if err := e.Bind(t.Context(), pod("p"), "a"); err != nil {
			t.Fatal(err)
		}
	}
	e.CloseIdleConnections()
	<-closed
	if opened != 1 {
		t.Errorf("%d connections", opened)
	}
}

// TestReview: budgets that would be violated are told, and heard.
func TestReview(t *testing.T) {
	victim := pod("v")
	victim.Spec.NodeName = "a"
	trial := (&scheduler.Profile{}).Trial(pod("p"), scheduler.NewSnapshot(nodes("a"), []*corev1.Pod{victim}))
	for _, byName := range []bool{false, true} {
		p := serve(t, `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-v"}],"NumPDBViolations":3}}}`)
		config := p.config()
		config.NodeCacheCapable = byName
		left, err := start(t, config).Review(t.Context(), trial, map[string]plugins.Victims{"a": {Pods: []*corev1.Pod{victim}, Violations: 2}})
		if err != nil || len(left) != 1 || left["a"].Violations != 3 || len(left["a"].Pods) != 1 || left["a"].Pods[0] != victim {
			t.Errorf("by name %t: %+v, %v", byName, left, err)
		}
		if asked := strings.Join(p.asked, ""); !strings.Contains(asked, `"NumPDBViolations":2`) || !strings.HasPrefix(asked, `/base/preempt {"Pod":{"metadata":{"name":"p"`) {
			t.Errorf("by name %t: asked %s", byName, asked)
		}
	}
}

// TestOfNoInterest: even who asks directly gets no answer about a pod that names no managed resource.
func TestOfNoInterest(t *testing.T) {
	p := serve(t, `{"Error":"asked"}`)
	config := p.config()
	config.ManagedResources = []string{"example.com/gpu"}
	e, asking, infos := start(t, config), pod("p"), []*scheduler.NodeInfo{scheduler.NewNodeInfo(nodes("a")[0])}
	if !e.SkipAsk(asking) {
		t.Error("the program is to be asked")
	}
	if refusals, err := e.Winnow(t.Context(), asking, infos); err != nil || len(refusals) != 1 || refusals[0] != nil {
		t.Errorf("winnowed: %v, %v", refusals, err)
	}
	if scores, err := e.Rate(t.Context(), asking, infos); err != nil || scores != nil {
		t.Errorf("rated: %v, %v", scores, err)
	}
	if score := e.Score(asking, infos[0]); score != 0 {
		t.Errorf("score %d", score)
	}
	if len(p.asked) > 0 {
		t.Errorf("asked %q", p.asked)
	}
}

// TestSizes: an answer may have 4 MiB and twice the bytes of the question.
func TestSizes(t *testing.T) {
	p := serve(t, "")
	e := start(t, p.config())
	for more, want := range map[int]string{0: "", 1: "the answer has more than"} {
		p.answer = func(w http.ResponseWriter) {
			question := len(p.asked[len(p.asked)-1]) - len("/base/bind ")
			_, _ = io.WriteString(w, "{}"+strings.Repeat(" ", 4<<20+2*question-len("{}")+more))
		}
		if err := e.Bind(t.Context(), pod("p"), "a"); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes more: %v", more, err)
		}
	}
}

// TestEndless: a program that never ends its answer is hung up on.
func TestEndless(t *testing.T) {
	hungUp := make(chan struct{})
	p := serve(t, "")
	p.answer = func(w http.ResponseWriter) {
		defer close(hungUp)
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}
	config := p.config()
	config.Timeout = time.Hour // that is not how it ends
	if err := start(t, config).Bind(t.Context(), pod("p"), "a"); err == nil {
		t.Error("bound")
	}
	<-hungUp
}

func TestBind(t *testing.T) {
	p := serve(t, `{}`)
	e := start(t, p.config())
	if err := e.Bind(t.Context(), pod("p"), "a"); err != nil {
		t.Error(err)
	}
	if want := `/base/bind {"PodName":"p","PodNamespace":"ns","PodUID":"uid-p","Node":"a"}`; len(p.asked) != 1 || p.asked[0] != want {
		t.Errorf("asked %q, want %s", p.asked, want)
	}
	p.answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"Error":"no"}`)) }
	if err := e.Bind(t.Context(), pod("p"), "a"); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	c := p.config()
	c.Ignorable = true
	if err := start(t, c).Bind(t.Context(), pod("p"), "a"); !errors.Is(err, scheduler.ErrDeclined) || !strings.HasSuffix(err.Error(), ": no") {
		t.Errorf("ignorable: %v", err)
	}
	p.answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) }
	if err := start(t, c).Bind(t.Context(), pod("p"), "a"); err != nil {
		t.Errorf("ignorable, and it binds: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Bind(ctx, pod("p"), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	c.Bind = ""
	if err := start(t, c).Bind(t.Context(), pod("p"), "a"); !errors.Is(err, scheduler.ErrDeclined) {
		t.Errorf("without the verb: %v", err)
	}
}

// TestPreempt: the program chooses among the nodes and their victims.
func TestPreempt(t *testing.T) {
	victim := func(name, node string) *corev1.Pod {
		p := pod(name)
		p.Spec.NodeName = node
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
		return p
	}
	cluster := nodes("a", "b")
	for _, n := range cluster {
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("10")}
	}
	snapshot := scheduler.NewSnapshot(cluster, []*corev1.Pod{victim("a1", "a"), victim("a2", "a"), victim("b1", "b"), victim("b2", "b")})
	for name, c := range map[string]struct {
		change func(*extender.Config)
		answer string
		want   string // node and victims
		err    string
	}{
		"another node":          {nil, `{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"uid-b2"}]}}}`, "b: b2", ""},
		"more victims":          {nil, `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-a1"},{"UID":"uid-a2"}]}}}`, "a: a1 a2", ""},
		"violations count":      {nil, `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-a1"}],"NumPDBViolations":1},"b":{"Pods":[{"UID":"uid-b1"}]}}}`, "b: b1", ""},
		"no node":               {nil, `{}`, "", "preemption: no candidate node for preemption"},
		"no victims":            {nil, `{"NodeNameToMetaVictims":{"b":{}}}`, "", `preemption: expected at least one victim pod on node "b"`},
		"null":                  {nil, `{"NodeNameToMetaVictims":{"b":null}}`, "", `preemption: expected at least one victim pod on node "b"`},
		"unknown node":          {nil, `{"NodeNameToMetaVictims":{"x":{"Pods":[{"UID":"uid-b2"}]}}}`, "", `preemption: nodeinfo not found for node name "x"`},
		"unknown pod":           {nil, `{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"uid-a1"}]}}}`, "", `claims to preempt pod (UID: &{uid-a1}) on node: b, but the pod is not found on that node`},
		"no pod":                {nil, `{"NodeNameToMetaVictims":{"b":{"Pods":[null]}}}`, "", `claims to preempt pod (UID: <nil>) on node: b, but the pod is not found on that node`},
		"ignored":               {func(c *extender.Config) { c.Ignorable = true }, `no`, "either: one", ""},
		"ignored node":          {func(c *extender.Config) { c.Ignorable = true }, `{"NodeNameToMetaVictims":{"a":{},"b":{"Pods":[{"UID":"uid-b1"}]}}}`, "b: b1", ""},
		"not asked":             {func(c *extender.Config) { c.Preempt = "" }, `no`, "either: one", ""},
		"not of its interest":   {func(c *extender.Config) { c.ManagedResources = []string{"a.b/c"} }, `no`, "either: one", ""},
		"it knows pods by name": {func(c *extender.Config) { c.NodeCacheCapable = true }, `{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"uid-b2"}]}}}`, "b: b2", ""},
	} {
		p := serve(t, c.answer)
		config := p.config()
		if c.change != nil {
			c.change(&config)
		}
		e := start(t, config)
		preemptor := victim("p", "")
		preemptor.Spec.Priority = new(int32)
		*preemptor.Spec.Priority = 5
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeResourcesFit{}, Weight: 1}}}
		n, err := plugins.DefaultPreemption{Reviewers: []plugins.Reviewer{e}}.Preempt(t.Context(), profile.Trial(preemptor, snapshot))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", name, err, c.err)
			}
			continue
		}
		if err != nil || n == nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := n.Node + ":"
		for _, v := range n.Victims {
			got += " " + v.Name
		}
		if got != c.want && (c.want != "either: one" || len(n.Victims) != 1) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		form, other := `"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"name":`, `"NodeNameToMetaVictims":{"`
		if config.NodeCacheCapable {
			form, other = `"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-`, `"NodeNameToVictims":{"`
		}
		if asked := strings.Join(p.asked, " "); config.Preempt != "" && config.ManagedResources == nil && (!strings.Contains(asked, form) || strings.Contains(asked, other)) {
			t.Errorf("%s: asked %s, want %s alone", name, asked, form)
		}
	}
}
