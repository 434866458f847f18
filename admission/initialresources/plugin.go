package initialresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/pods"
)

// Name is the plugin's name.
const Name = "InitialResources"

// Annotation says in a pod what the plugin has set.
const Annotation = "kubernetes.io/initial-resources"

const (
	enough = 30 // measurements
	week   = 7 * 24 * time.Hour
	month  = 30 * 24 * time.Hour
)

// ErrPercentile means that Options.Percentile is no percentage.
var ErrPercentile = errors.New("the percentile must be from 1 to 100")

// Options of a Plugin. The zero value is ready to use.
type Options struct {
	// Percentile is which part of the measurements was not above what is requested, in percent; 0 is 90.
	Percentile int
	// NamespaceOnly leaves out what containers in other namespaces have used.
	NamespaceOnly bool
	// Timeout is how long the History may take for one pod; 0 is 2 s.
	Timeout time.Duration
	// Logger gets a line for each pod about which the History failed; nil discards.
	Logger *slog.Logger
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	history History
	options Options
}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin. Its error is ErrPercentile.
func New(h History, o Options) (*Plugin, error) {
	o.Percentile, o.Timeout = cmp.Or(o.Percentile, 90), cmp.Or(o.Timeout, 2*time.Second)
	if o.Percentile < 1 || o.Percentile > 100 {
		return nil, fmt.Errorf("%w, not %d", ErrPercentile, o.Percentile)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Plugin{h, o}, nil
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.Mutator.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	pod, err := pods.In(r)
	if pod == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	e := &estimate{Plugin: p, ctx: ctx, pod: pod, namespace: r.Namespace, now: time.Now()}
	for i := range pod.Spec.InitContainers {
		e.fill(&pod.Spec.InitContainers[i], "init container")
	}
	for i := range pod.Spec.Containers {
		e.fill(&pod.Spec.Containers[i], "container")
	}
	if e.failure != nil {
		p.options.Logger.Warn("what the containers of a pod will need is not known", "pod", r.Namespace+"/"+cmp.Or(pod.Name, pod.GenerateName), "error", e.failure)
	}
	if len(e.told) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[Annotation] = "Initial Resources plugin set: " + strings.Join(e.told, "; ")
	}
	return nil
}

// estimate is what is found out for one pod.
type estimate struct {
	*Plugin
	ctx       context.Context //nolint:containedctx // of one call
	pod       *corev1.Pod
	namespace string
	now       time.Time
	told      []string // what was set, for the annotation
	failure   error    // the first; nothing is asked after it
}

// fill sets the requests that a container lacks.
func (e *estimate) fill(c *corev1.Container, kind string) {
	var set []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if has(&c.Resources, name) || e.pod.Spec.Resources != nil && has(e.pod.Spec.Resources, name) {
			continue
		}
		usage := e.usage(name, c.Image)
		if usage.Samples == 0 {
			continue
		}
		quantity := resource.NewQuantity(usage.Value, resource.DecimalSI)
		if name == corev1.ResourceCPU {
			quantity = resource.NewMilliQuantity(usage.Value, resource.DecimalSI)
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[name] = *quantity
		set = append(set, string(name))
	}
	if len(set) > 0 {
		e.told = append(e.told, strings.Join(set, ", ")+" request for "+kind+" "+c.Name)
	}
}

// has tells whether a request, or a limit, which would be the request, is given.
func has(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	_, requested := r.Requests[name]
	_, limited := r.Limits[name]
	return requested || limited
}

// usage asks for wider and wider sets of measurements until one has enough.
func (e *estimate) usage(name corev1.ResourceName, image string) Usage {
	q := Query{Resource: name, Image: image, Percentile: e.options.Percentile, To: e.now}
	var found Usage
	for _, s := range e.sets() {
		if e.failure != nil {
			return Usage{}
		}
		q.Namespace, q.AnyTag, q.From = s.namespace, s.anyTag, e.now.Add(-s.span)
		if found, e.failure = e.history.Usage(e.ctx, q); e.failure != nil {
			return Usage{}
		}
		if found.Samples >= enough {
			break
		}
	}
	return found
}

// set is a set of measurements.
type set struct {
	namespace string
	anyTag    bool
	span      time.Duration
}

// sets are those that are asked for, in order.
func (e *estimate) sets() []set {
	own := []set{{e.namespace, false, week}, {e.namespace, false, month}}
	if e.options.NamespaceOnly {
		return append(own, set{e.namespace, true, month})
	}
	return append(own, set{"", false, week}, set{"", false, month}, set{"", true, month})
}
