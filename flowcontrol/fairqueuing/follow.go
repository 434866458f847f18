package fairqueuing

import (
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/informer"
)

// Follow has the limiter do what the objects of two informers say, from now on, and the informers tell of each change.
func (l *Limiter) Follow(schemas *informer.Informer[*flowcontrolv1.FlowSchema], levels *informer.Informer[*flowcontrolv1.PriorityLevelConfiguration]) {
	var mu sync.Mutex // the newest lists are the last to be set
	set := func() {
		mu.Lock()
		defer mu.Unlock()
		l.Set(flowcontrol.NewConfig(schemas.List(""), levels.List("")))
	}
	schemas.AddHandler(informer.Handler[*flowcontrolv1.FlowSchema]{
		Added: func(*flowcontrolv1.FlowSchema) { set() }, Deleted: func(*flowcontrolv1.FlowSchema) { set() },
		Updated: func(_, _ *flowcontrolv1.FlowSchema) { set() },
	})
	levels.AddHandler(informer.Handler[*flowcontrolv1.PriorityLevelConfiguration]{
		Added: func(*flowcontrolv1.PriorityLevelConfiguration) { set() }, Deleted: func(*flowcontrolv1.PriorityLevelConfiguration) { set() },
		Updated: func(_, _ *flowcontrolv1.PriorityLevelConfiguration) { set() },
	})
}
