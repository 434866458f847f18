package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// ErrDeclined means that a Binder leaves the pod to the next one ("Skip" upstream).
var ErrDeclined = errors.New("binder declined the pod")

// PreBinder prepares the binding of a pod: it attaches a volume or writes a claim, say ("PreBind" upstream). A
// PreBinder may also implement PreBindSkipper.
//
// PreBinders run one after the other in the profile's order, in a goroutine per pod that Scheduler.Run waits
// for, while other pods are scheduled; for at most Options.PreBinds pods at once. Meanwhile, the pod's
// status.nominatedNodeName names its node.
type PreBinder interface {
	Plugin
	// PreBind returns when the pod, which is shared and has no spec.nodeName yet, may be bound to the node. It
	// may take long, but must return when the context ends, which it does with Run, and with the pod. After an
	// error the pod is not bound: its reservations are undone, and the pod is retried with back-off. A *Refusal as the error is
	// reported as unschedulable rather than as a failure. The pod's next attempt calls PreBind again, perhaps
	// for another node, so PreBind must be idempotent.
	PreBind(ctx context.Context, pod *corev1.Pod, node string) error
}

// PreBindSkipper is the part of a PreBinder that knows which pods need no preparation ("PreBindPreFlight"
// upstream). Pods that no PreBinder has to prepare are bound as fast as without any. Without it, PreBind is
// called for every pod.
type PreBindSkipper interface {
	// SkipPreBind reports whether to skip PreBind. It is called after all Reservers and Permitters, like them in
	// the goroutine of Scheduler.Run, and must be quick.
	SkipPreBind(pod *corev1.Pod, node string) bool
}

// Binder binds a pod to its node ("Bind" upstream); plugins.DefaultBinder does so with the pod's binding
// subresource.
//
// Binders are called in the profile's order until one does not decline, in a goroutine that Scheduler.Run waits
// for, while other pods are scheduled; for at most Options.Writes pods at once. They must be safe for
// concurrent use. A Scheduler needs at least one.
type Binder interface {
	Plugin
	// Bind sets the pod's spec.nodeName to the node. The pod is shared. Bind returns nil on success, an error
	// that wraps ErrDeclined if it has done nothing and leaves the pod to another Binder, and any other error
	// if it failed; then the pod is retried as with a PreBinder, unless it turns out to be bound or gone. It
	// must return soon after the context ends, which it does with Run; the pod may then be bound or not.
	Bind(ctx context.Context, pod *corev1.Pod, node string) error
}

// PostBinder is called for bound pods, to clean up or to count ("PostBind" upstream).
//
// PostBinders are called in the profile's order, in the goroutine that bound the pod. Other pods do not wait
// for them, but they occupy one of the Options.Writes meanwhile.
type PostBinder interface {
	Plugin
	// PostBind is called once for each pod that this scheduler bound. The pod is in its state before.
	PostBind(ctx context.Context, pod *corev1.Pod, node string)
}

// PreBinderFunc returns a PreBinder that calls a function.
func PreBinderFunc(name string, preBind func(ctx context.Context, pod *corev1.Pod, node string) error) PreBinder {
	return preBinderFunc{name, preBind}
}

// BinderFunc returns a Binder that calls a function.
func BinderFunc(name string, bind func(ctx context.Context, pod *corev1.Pod, node string) error) Binder {
	return binderFunc{name, bind}
}

// PostBinderFunc returns a PostBinder that calls a function.
func PostBinderFunc(name string, postBind func(ctx context.Context, pod *corev1.Pod, node string)) PostBinder {
	return postBinderFunc{name, postBind}
}

type preBinderFunc struct {
	name    string
	preBind func(context.Context, *corev1.Pod, string) error
}

func (f preBinderFunc) Name() string { return f.name }

func (f preBinderFunc) PreBind(ctx context.Context, pod *corev1.Pod, node string) error {
	return f.preBind(ctx, pod, node)
}

type binderFunc struct {
	name string
	bind func(context.Context, *corev1.Pod, string) error
}

func (f binderFunc) Name() string { return f.name }

func (f binderFunc) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	return f.bind(ctx, pod, node)
}

type postBinderFunc struct {
	name     string
	postBind func(context.Context, *corev1.Pod, string)
}

func (f postBinderFunc) Name() string { return f.name }

func (f postBinderFunc) PostBind(ctx context.Context, pod *corev1.Pod, node string) {
	f.postBind(ctx, pod, node)
}
