package horizontalpodautoscaler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/controllers"
)

// selectors are those of the pods of autoscalers' targets, as far as they are known. The zero value is ready to use. It is
// safe for concurrent use.
type selectors struct {
	mu sync.Mutex
	in map[string]map[controllers.Key]labels.Selector // by namespace
}

// add adds an autoscaler whose selector is not known yet.
func (s *selectors) add(key controllers.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == nil {
		s.in = map[string]map[controllers.Key]labels.Selector{}
	}
	all := s.in[key.Namespace]
	if all == nil {
		all = map[controllers.Key]labels.Selector{}
		s.in[key.Namespace] = all
	}
	if _, ok := all[key]; !ok {
		all[key] = labels.Nothing()
	}
}

// set changes the selector of an autoscaler, and reports whether there is such an autoscaler.
func (s *selectors) set(key controllers.Key, selector labels.Selector) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.in[key.Namespace]
	_, ok := all[key]
	if ok {
		all[key] = selector
	}
	return ok
}

func (s *selectors) remove(key controllers.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.in[key.Namespace], key); len(s.in[key.Namespace]) == 0 {
		delete(s.in, key.Namespace)
	}
}

// of returns the autoscalers of a namespace that select one of the pods, in the order of their names.
func (s *selectors) of(namespace string, pods []*corev1.Pod) []controllers.Key {
	distinct := map[string]labels.Set{} // most pods have the labels of others
	for _, p := range pods {
		distinct[labels.FormatLabels(p.Labels)] = p.Labels
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []controllers.Key
	for key, selector := range s.in[namespace] {
		for set := range maps.Values(distinct) {
			if selector.Matches(set) {
				found = append(found, key)
				break
			}
		}
	}
	slices.SortFunc(found, func(a, b controllers.Key) int { return strings.Compare(a.Name, b.Name) })
	return found
}
