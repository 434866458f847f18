package publish

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/keelson-dev/keelson/events"
)

// The bounds of upstream's event correlator.
const (
	remembered      = 4096             // events, groups and objects
	combineFrom     = 10               // different messages in a group
	combineInterval = 10 * time.Minute // of silence that end a group
	spamBurst       = 25
	spamRate        = rate.Limit(1. / 300)
)

// counts writes events as core/v1 does: a repeated event gets a higher count.
type counts struct {
	options Options
	groups  *lru.Cache // groupKey → *group
	seen    *lru.Cache // eventKey or groupKey → *corev1.Event as last written
	spam    *lru.Cache // spamKey → *rate.Limiter
}

func newCounts(options Options) *counts {
	return &counts{options: options, groups: lru.New(remembered), seen: lru.New(remembered), spam: lru.New(remembered)}
}

// spamKey identifies a source and an object, whose events are rate-limited together.
type spamKey struct {
	about               corev1.ObjectReference
	eventType, reporter string
}

// groupKey is what events that differ only in their message have in common.
type groupKey struct {
	spamKey
	reason string
}

// eventKey is what repetitions have in common.
type eventKey struct {
	groupKey
	fieldPath, message string
}

// group is the messages of similar events, oldest first.
type group struct {
	messages []string
	last     time.Time
}

func keysOf(e events.Event) (spamKey, groupKey, eventKey) {
	about := e.Regarding
	about.FieldPath, about.ResourceVersion = "", ""
	s := spamKey{about, e.Type, e.Reporter}
	g := groupKey{s, e.Reason}
	return s, g, eventKey{g, e.Regarding.FieldPath, e.Message}
}

func (c *counts) every() time.Duration    { return 0 }
func (c *counts) tick(time.Time) []*write { return nil }
func (c *counts) limiter(k spamKey) *rate.Limiter {
	if l, ok := c.spam.Get(k); ok {
		return l.(*rate.Limiter)
	}
	l := rate.NewLimiter(spamRate, spamBurst)
	c.spam.Add(k, l)
	return l
}

// take implements style.
func (c *counts) take(o observed) *write {
	object, similar, same := keysOf(o.Event)
	var key any = same
	if c.combine(similar, o) {
		key = similar
		o.Message = "(combined from similar events): " + o.Message
	}
	now := metav1.NewTime(o.at)
	w := &write{resource: corev1.SchemeGroupVersion.WithResource("events")}
	var event *corev1.Event
	if before, ok := c.seen.Get(key); ok {
		event = before.(*corev1.Event).DeepCopy()
		event.Count++
		event.LastTimestamp, event.Message = now, o.Message
		w.patch = countPatch{event.Count, event.LastTimestamp, event.Message}
	} else {
		event = c.event(o)
	}
	c.seen.Add(key, event)
	w.event = event
	if !c.limiter(object).AllowN(o.at, 1) {
		return nil
	}
	return w
}

// combine reports whether a group has so many different messages that they become one event.
func (c *counts) combine(k groupKey, o observed) bool {
	g := &group{}
	if found, ok := c.groups.Get(k); ok && o.at.Sub(found.(*group).last) <= combineInterval {
		g = found.(*group)
	}
	g.last = o.at
	c.groups.Add(k, g)
	if slices.Contains(g.messages, o.Message) {
		return false
	}
	if len(g.messages)+1 >= combineFrom {
		return true // messages with events of their own stay
	}
	g.messages = append(g.messages, o.Message)
	return false
}

func (c *counts) event(o observed) *corev1.Event {
	now := metav1.NewTime(o.at)
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: nameOf(o, c.options), Namespace: namespaceOf(o.Regarding)},
		InvolvedObject:      o.Regarding,
		Related:             o.Related,
		Type:                o.Type,
		Reason:              o.Reason,
		Action:              o.Action,
		Message:             o.Message,
		Source:              corev1.EventSource{Component: cmp.Or(o.Reporter, c.options.Component), Host: c.options.Host},
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		ReportingController: cmp.Or(o.Reporter, c.options.Component),
		ReportingInstance:   c.options.Host,
	}
}

// countPatch is the change of a repeated event.
type countPatch struct {
	Count         int32       `json:"count"`
	LastTimestamp metav1.Time `json:"lastTimestamp"`
	Message       string      `json:"message"`
}
