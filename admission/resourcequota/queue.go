package resourcequota

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/quota"
)

// queue holds the waiting requests of one namespace. A request that finds no queue serves all requests waiting
// by then, and then hands over to the first of those that arrived meanwhile; so there are no goroutines, and no
// request serves others for longer than one round.
type queue []*waiter

// batch is the maximum number of requests that are charged together.
const batch = 512

// waiter is one request in the queue.
type waiter struct {
	request *admission.Request
	claim   *quota.Claim
	chosen  bool          // whether it was chosen to serve; guarded by Plugin.mu
	turn    chan struct{} // closed when it is chosen
	done    chan struct{} // closed when err is set
	err     error
	paid    []payment // used only by the serving request
}

func newWaiter(r *admission.Request, c *quota.Claim) *waiter {
	return &waiter{request: r, claim: c, turn: make(chan struct{}), done: make(chan struct{})}
}

// fit returns what to charge each quota, or refuses the request.
func (w *waiter) fit(quotas []*corev1.ResourceQuota) ([]corev1.ResourceList, error) {
	for _, q := range quotas {
		if err := w.claim.Check(q); err != nil {
			return nil, admission.Forbidden(w.request, "%w", err)
		}
	}
	charges := make([]corev1.ResourceList, len(quotas))
	for i, q := range quotas {
		var err error
		if charges[i], err = w.claim.Charge(q); err != nil {
			return nil, admission.Forbidden(w.request, "%w", err)
		}
	}
	return charges, nil
}

// wait waits until the request is decided, and serves others if it is chosen.
func (p *Plugin) wait(ctx context.Context, namespace string, w *waiter) error {
	if !p.enqueue(namespace, w) {
		select {
		case <-w.done:
			return w.err
		case <-w.turn:
		case <-ctx.Done():
			if p.dequeue(namespace, w) {
				return admission.Internal(ctx.Err())
			}
			select { // another request serves it, or it must serve
			case <-w.done:
				return w.err
			case <-w.turn:
			}
		}
	}
	p.round(ctx, namespace)
	return w.err
}

// enqueue joins the queue, and reports whether w must serve it.
func (p *Plugin) enqueue(namespace string, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, served := p.queues[namespace]
	w.chosen = !served
	p.queues[namespace] = append(waiting, w)
	return w.chosen
}

// dequeue removes w from the queue, unless it is chosen or being served already. It reports whether it did.
func (p *Plugin) dequeue(namespace string, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.queues[namespace]
	at := slices.Index(waiting, w)
	if at < 0 || w.chosen {
		return false
	}
	p.queues[namespace] = slices.Delete(waiting, at, at+1)
	return true
}

// round serves the waiting requests and hands over. It does not end with the context of the serving request:
// the others do not depend on it.
func (p *Plugin) round(ctx context.Context, namespace string) {
	p.mu.Lock()
	waiting := p.queues[namespace]
	n := min(len(waiting), batch)
	served := waiting[:n:n]
	p.queues[namespace] = waiting[n:]
	p.mu.Unlock()
	defer func() {
		for _, w := range served {
			close(w.done)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		waiting := p.queues[namespace]
		if len(waiting) == 0 {
			delete(p.queues, namespace)
			return
		}
		waiting[0].chosen = true
		close(waiting[0].turn)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.Timeout)
	defer cancel()
	p.charge(ctx, namespace, served)
}
