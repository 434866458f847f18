package controllers_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// near is how far apart the times of the same thing may be.
const near = time.Second

// object is one object in the API, without what differs between two runs.
type object struct {
	text  string          // a line for each value
	times []time.Duration // of the values that are times, in the order of the lines
	about string          // of an event: the object and the type, which are limited together
	count int             // of an event
}

var (
	// generated are the ends of names that the API server made up.
	generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	nodeName  = regexp.MustCompile(`\bn\d+\b`)
	uids      = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// plain replaces what is random in a text.
func (w *world) plain(text string) string {
	if w.contest.nodes {
		text = nodeName.ReplaceAllString(text, "n*")
	}
	if by := w.contest.arbitrary; by != nil {
		text = by.ReplaceAllString(text, "$1*")
	}
	return uids.ReplaceAllString(generated.ReplaceAllString(text, "-*"), "<uid>")
}

// state reads all that the controller may have written.
func (w *world) state() []object {
	w.Helper()
	var all []object
	for _, resource := range w.contest.written {
		list, err := w.objects.Resource(resource).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for _, item := range list.Items {
			item.SetUID("")
			item.SetResourceVersion("")
			item.SetManagedFields(nil)
			if w.contest.alike != nil {
				w.contest.alike(item.Object)
			}
			all = append(all, w.object(item.Object))
		}
	}
	if w.contest.nodes {
		for _, looks := range w.nodeLooks() {
			all = append(all, object{text: "the node and its pods: " + looks})
		}
	}
	events, err := w.api.CoreV1().Events("").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, e := range events.Items {
		if strings.Contains(e.Message, "the object has been modified") {
			continue // whether a cache lags is left to chance
		}
		if slices.Contains(w.contest.unheard, e.Reason) || w.contest.doubtful != nil && w.contest.doubtful(w, &e) {
			continue
		}
		if strings.HasPrefix(e.Message, "(combined from similar events)") {
			continue // upstream finds those again by a name that renaming has changed
		}
		all = append(all, w.event(&e))
	}
	slices.SortFunc(all, func(a, b object) int {
		return cmp.Or(strings.Compare(a.text, b.text), slices.Compare(a.times, b.times))
	})
	return all
}

// event describes an event. How often a controller tries again what fails is left to chance, and so is how often it says
// so.
func (w *world) event(e *corev1.Event) object {
	o := object{
		text: w.plain(fmt.Sprintf("event from %s on %s %s/%s %s: %s %s %s", e.Source.Component, e.InvolvedObject.Kind, e.InvolvedObject.Namespace,
			e.InvolvedObject.Name, e.InvolvedObject.FieldPath, e.Type, e.Reason, e.Message)),
		times: []time.Duration{e.FirstTimestamp.Sub(w.began)},
		about: fmt.Sprint(e.InvolvedObject.UID, e.Type), count: int(e.Count),
	}
	if e.Type == corev1.EventTypeNormal && !slices.Contains(w.contest.uncounted, e.Reason) {
		o.text += fmt.Sprintf(", %d times", e.Count)
		o.times = append(o.times, e.LastTimestamp.Sub(w.began))
	}
	return o
}

// object makes lines of an object.
func (w *world) object(obj map[string]any) object {
	var o object
	var lines []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for key := range v {
				keys = append(keys, key)
			}
			sort.Strings(keys)
			for _, key := range keys {
				walk(path+"."+key, v[key])
			}
			if len(v) == 0 {
				lines = append(lines, path+": {}")
			}
		case []any:
			for i := range v {
				walk(path+"["+strconv.Itoa(i)+"]", v[i])
			}
			if len(v) == 0 {
				lines = append(lines, path+": []")
			}
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				o.times = append(o.times, at.Sub(w.began))
				v = "<time>"
			}
			lines = append(lines, path+": "+w.plain(v))
		default:
			lines = append(lines, fmt.Sprint(path, ": ", v))
		}
	}
	head := fmt.Sprintf("%v %v", obj["kind"], obj["metadata"].(map[string]any)["name"])
	lines = append(lines, w.plain(head))
	walk("", obj)
	o.text = strings.Join(lines, "\n")
	if w.contest.nodes && obj["kind"] == "Pod" {
		o.times = nil // which of the nodes comes first is left to chance
	}
	return o
}

// String lists the objects.
func (m moment) String() string {
	var out strings.Builder
	for _, o := range m.state {
		fmt.Fprintln(&out, o.text, o.times)
	}
	return out.String()
}

// compare says in what two states differ.
func compare(ours, theirs moment) string {
	var out []string
	if !slices.Equal(ours.log, theirs.log) {
		out = append(out, "what was done: "+lines(strings.Join(ours.log, "\n"), strings.Join(theirs.log, "\n")))
	}
	here, there := map[string][]object{}, map[string][]object{}
	dropped := many(ours, theirs)
	for _, o := range ours.state {
		if !dropped[o.about] {
			here[o.text] = append(here[o.text], o)
		}
	}
	for _, o := range theirs.state {
		if !dropped[o.about] {
			there[o.text] = append(there[o.text], o)
		}
	}
	var missing, unexpected []string
	for text, all := range there {
		mine := here[text]
		for i, o := range all {
			switch {
			case i >= len(mine):
				missing = append(missing, text)
			case !closeTo(mine[i].times, o.times):
				out = append(out, fmt.Sprintf("times of %s\n- %v\n+ %v", text, o.times, mine[i].times))
			}
		}
	}
	for text, all := range here {
		for range len(all) - min(len(all), len(there[text])) {
			unexpected = append(unexpected, text)
		}
	}
	return strings.Join(append(out, pairs(missing, unexpected)...), "\n")
}

// many returns what has so many events that some may have been dropped, depending on how often others were repeated: a
// source may send 25 about an object at once.
func many(all ...moment) map[string]bool {
	dropped := map[string]bool{}
	for _, m := range all {
		counts := map[string]int{}
		for _, o := range m.state {
			counts[o.about] += o.count
		}
		for about, n := range counts {
			if about != "" && n >= 20 {
				dropped[about] = true
			}
		}
	}
	return dropped
}

func closeTo(a, b []time.Duration) bool {
	return slices.EqualFunc(a, b, func(a, b time.Duration) bool { return (a - b).Abs() <= near })
}

// pairs describes objects of two states, the same ones side by side.
func pairs(missing, unexpected []string) (out []string) {
	slices.Sort(missing)
	slices.Sort(unexpected)
	head := func(text string) string { return strings.SplitN(text, "\n", 2)[0] }
	for _, text := range missing {
		i := slices.IndexFunc(unexpected, func(other string) bool { return head(other) == head(text) })
		if i < 0 {
			out = append(out, "- "+text)
			continue
		}
		out = append(out, head(text)+":\n"+lines(unexpected[i], text))
		unexpected = slices.Delete(unexpected, i, i+1)
	}
	for _, text := range unexpected {
		out = append(out, "+ "+text)
	}
	return out
}

// lines are those that only one of two texts has.
func lines(ours, theirs string) string {
	here, there := strings.Split(ours, "\n"), strings.Split(theirs, "\n")
	var out []string
	for _, line := range there {
		if !slices.Contains(here, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range here {
		if !slices.Contains(there, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// renaming gives every event that is created a name of its own. Upstream names events by object and nanosecond: in a
// bubble many have the same, and all but one would be refused.
type renaming struct {
	http.RoundTripper
	count atomic.Int64
}

func (r *renaming) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPost || path.Base(request.URL.Path) != "events" {
		return r.RoundTripper.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var event corev1.Event
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, err
	}
	event.Name = fmt.Sprintf("%s.%d", event.Name, r.count.Add(1))
	if body, err = json.Marshal(&event); err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r.RoundTripper.RoundTrip(request)
}

// resources returns those with the given names.
func resources(gv schema.GroupVersion, names ...string) (all []schema.GroupVersionResource) {
	for _, name := range names {
		all = append(all, gv.WithResource(name))
	}
	return all
}
