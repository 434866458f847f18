// Package decisions keeps the last decisions of a scheduler in bounded memory: why each pod is where it is, or nowhere, with
// the nodes that refused it or their scores, and what was preempted for it. A Log takes them:
//
//	log := decisions.New(decisions.Options{})
//	options.OnDecision = log.Record
//
// and serves them to HTTP clients, read-only, as tables or JSON. Whoever may see a decision sees names of pods and nodes of
// the whole cluster; the server in front decides who may.
//
// There are no errors. A Log may be used by many goroutines.
package decisions

import (
	"container/list"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/scheduler"
)

// Options are the options of a Log. The zero value is valid.
type Options struct {
	// Pods is of how many pods the last decision is kept; 0 means 1,000.
	Pods int
	// Verdicts is how many verdicts on nodes are kept in all decisions together, of about 1 kB each with scores; 0 means
	// 20,000. The last decision is kept in any case.
	Verdicts int
}

// Entry is a decision that is kept.
type Entry struct {
	At time.Time // when it was made
	scheduler.Decision
}

// Log keeps decisions. Make one with New.
type Log struct {
	o Options

	mu       sync.Mutex
	entries  *list.List // of *Entry, the latest first
	pods     map[key]*list.Element
	verdicts int
}

type key struct{ namespace, name string }

// New returns an empty Log.
func New(o Options) *Log {
	if o.Pods <= 0 {
		o.Pods = 1000
	}
	if o.Verdicts <= 0 {
		o.Verdicts = 20000
	}
	return &Log{o: o, entries: list.New(), pods: map[key]*list.Element{}}
}

// Record keeps a decision in place of an earlier one about a pod of that name, and forgets the oldest ones that are too many.
func (l *Log) Record(d scheduler.Decision) {
	if d.Pod == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := key{d.Pod.Namespace, d.Pod.Name}
	if e := l.pods[k]; e != nil {
		l.remove(e)
	}
	l.pods[k] = l.entries.PushFront(&Entry{At: time.Now(), Decision: d})
	l.verdicts += len(d.Verdicts)
	for l.entries.Len() > 1 && (l.entries.Len() > l.o.Pods || l.verdicts > l.o.Verdicts) {
		l.remove(l.entries.Back())
	}
}

func (l *Log) remove(e *list.Element) {
	entry := l.entries.Remove(e).(*Entry) //nolint:forcetypeassert // nothing else is in it
	delete(l.pods, key{entry.Pod.Namespace, entry.Pod.Name})
	l.verdicts -= len(entry.Verdicts)
}

// Last returns the last decision about a pod, if it is kept.
func (l *Log) Last(namespace, name string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[key{namespace, name}]
	if e == nil {
		return Entry{}, false
	}
	return *e.Value.(*Entry), true //nolint:forcetypeassert // nothing else is in it
}

// All returns the decisions, the latest first.
func (l *Log) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Entry, 0, l.entries.Len())
	for e := l.entries.Front(); e != nil; e = e.Next() {
		all = append(all, *e.Value.(*Entry)) //nolint:forcetypeassert // nothing else is in it
	}
	return all
}
