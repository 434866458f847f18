package publish

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The times of upstream's event series.
const (
	finishAfter  = 6 * time.Minute  // of silence end a series
	refreshEvery = 30 * time.Minute // how often the count of a running series is written
)

// series writes events as events.k8s.io/v1 does: a repeated event becomes a series.
type series struct {
	options   Options
	events    map[seriesKey]*eventsv1.Event
	refreshed time.Time
}

// seriesKey is what the events of a series have in common.
type seriesKey struct {
	eventType, action, reason, reporter string
	regarding, related                  corev1.ObjectReference
}

func newSeries(options Options) *series {
	return &series{options: options, events: map[seriesKey]*eventsv1.Event{}}
}

func (s *series) every() time.Duration { return finishAfter }

// take implements style.
func (s *series) take(o observed) *write {
	k := seriesKey{eventType: o.Type, action: o.Action, reason: o.Reason, reporter: o.Reporter, regarding: o.Regarding}
	if o.Related != nil {
		k.related = *o.Related
	}
	e, ok := s.events[k]
	switch {
	case !ok:
		e = s.event(o)
		s.events[k] = e
		return s.write(e)
	case e.Series == nil:
		e.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(o.at)}
		return s.write(e)
	default:
		e.Series.Count++
		e.Series.LastObservedTime = metav1.NewMicroTime(o.at)
		return nil
	}
}

// tick writes the count of ended series, and from time to time that of all, so that the server does not expire them.
func (s *series) tick(now time.Time) []*write {
	refresh := !s.refreshed.IsZero() && now.Sub(s.refreshed) >= refreshEvery
	if refresh || s.refreshed.IsZero() {
		s.refreshed = now
	}
	var due []*write
	for k, e := range s.events {
		last := e.EventTime.Time
		if e.Series != nil {
			last = e.Series.LastObservedTime.Time
		}
		over := now.Sub(last) > finishAfter
		if e.Series != nil && (over || refresh) {
			due = append(due, s.write(e))
		}
		if over {
			delete(s.events, k)
		}
	}
	slices.SortFunc(due, func(a, b *write) int {
		if c := strings.Compare(a.event.GetNamespace(), b.event.GetNamespace()); c != 0 {
			return c
		}
		return strings.Compare(a.event.GetName(), b.event.GetName())
	})
	return due
}

func (s *series) event(o observed) *eventsv1.Event {
	reporter := cmp.Or(o.Reporter, s.options.Component)
	instance := reporter
	if s.options.Host != "" {
		instance += "-" + s.options.Host
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: nameOf(o, s.options), Namespace: namespaceOf(o.Regarding)},
		EventTime:           metav1.NewMicroTime(o.at),
		ReportingController: reporter,
		ReportingInstance:   instance,
		Action:              o.Action,
		Reason:              o.Reason,
		Regarding:           o.Regarding,
		Related:             o.Related,
		Note:                o.Message,
		Type:                o.Type,
	}
}

// seriesPatch is the change of a repeated event.
type seriesPatch struct {
	Series *eventsv1.EventSeries `json:"series"`
}

// write copies an event for the server, as a patch of its series if it has one.
func (s *series) write(e *eventsv1.Event) *write {
	e = e.DeepCopy()
	w := &write{resource: eventsv1.SchemeGroupVersion.WithResource("events"), event: e}
	if e.Series != nil {
		w.patch = seriesPatch{e.Series}
		w.retryExists = true
	}
	return w
}
