// Package memory is a history of what containers have used, in the memory of this process, for admission/initialresources.
package memory

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission/initialresources"
)

// Sample is a measurement of a container.
type Sample struct {
	Namespace string              // of its pod
	Image     string              // as the container names it
	Resource  corev1.ResourceName // cpu or memory
	Value     int64               // thousandths of a CPU, or bytes
	At        time.Time           // when it was measured
}

// Options of a History. The zero value is ready to use.
type Options struct {
	// Images is how many images are known, each in each namespace by itself: of one more than these, the one that was not
	// measured for longest is forgotten. 0 is 2,000.
	Images int
	// Samples is how many measurements are kept of each, for each resource, the newest; 0 is 1,000. One takes 32 bytes.
	Samples int
}

// History is an initialresources.History. Make one with New. It is safe for concurrent use.
type History struct {
	options Options

	mu    sync.RWMutex
	clock uint64
	known map[place]*measured
}

// place is where measurements belong.
type place struct {
	namespace, image string
}

type measured struct {
	last    uint64 // by the clock
	samples map[corev1.ResourceName][]sample
	next    map[corev1.ResourceName]int // where the next one goes once the list is full
}

type sample struct {
	at    time.Time
	value int64
}

// New returns an empty history.
func New(o Options) *History {
	o.Images, o.Samples = cmp.Or(max(o.Images, 0), 2000), cmp.Or(max(o.Samples, 0), 1000)
	return &History{options: o, known: map[place]*measured{}}
}

// Add records a measurement.
func (h *History) Add(s Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	at := place{s.Namespace, s.Image}
	m := h.known[at]
	if m == nil {
		if len(h.known) >= h.options.Images {
			h.forget()
		}
		m = &measured{samples: map[corev1.ResourceName][]sample{}, next: map[corev1.ResourceName]int{}}
		h.known[at] = m
	}
	m.last = h.clock
	list := m.samples[s.Resource]
	if len(list) < h.options.Samples {
		m.samples[s.Resource] = append(list, sample{s.At, s.Value})
		return
	}
	list[m.next[s.Resource]] = sample{s.At, s.Value}
	m.next[s.Resource] = (m.next[s.Resource] + 1) % len(list)
}

// forget removes what was not measured for longest.
func (h *History) forget() {
	var oldest place
	last := h.clock
	for at, m := range h.known {
		if m.last < last {
			oldest, last = at, m.last
		}
	}
	delete(h.known, oldest)
}

// Usage implements initialresources.History.
func (h *History) Usage(_ context.Context, q initialresources.Query) (initialresources.Usage, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var values []int64
	for at, m := range h.known {
		if q.Namespace != "" && at.namespace != q.Namespace || !same(at.image, q) {
			continue
		}
		for _, s := range m.samples[q.Resource] {
			if !s.at.Before(q.From) && !s.at.After(q.To) {
				values = append(values, s.value)
			}
		}
	}
	return initialresources.Percentile(values, q.Percentile), nil
}

func same(image string, q initialresources.Query) bool {
	if q.AnyTag {
		return initialresources.Repository(image) == initialresources.Repository(q.Image)
	}
	return image == q.Image
}
