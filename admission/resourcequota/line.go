package resourcequota

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/quota"
)

// line is where the requests of one namespace wait. Whoever comes to where there is none serves all that
// wait by then, and then lets the first of those who came meanwhile do the same; so there are no
// goroutines, and nobody serves others for longer than one round.
type line []*ticket

// batch is how many requests are charged together at most.
const batch = 512

// ticket is one request in line.
type ticket struct {
	request *admission.Request
	claim   *quota.Claim
	serves  bool          // whether it was chosen to serve; guarded by Plugin.mu
	lead    chan struct{} // closed when it is chosen
	done    chan struct{} // closed when err is set
	err     error
	paid    []payment // of whoever serves alone
}

func newTicket(r *admission.Request, c *quota.Claim) *ticket {
	return &ticket{request: r, claim: c, lead: make(chan struct{}), done: make(chan struct{})}
}

// fit returns what each quota is to be charged, or refuses the request.
func (t *ticket) fit(quotas []*corev1.ResourceQuota) ([]corev1.ResourceList, error) {
	for _, q := range quotas {
		if err := t.claim.Check(q); err != nil {
			return nil, admission.Forbidden(t.request, "%w", err)
		}
	}
	charges := make([]corev1.ResourceList, len(quotas))
	for i, q := range quotas {
		var err error
		if charges[i], err = t.claim.Charge(q); err != nil {
			return nil, admission.Forbidden(t.request, "%w", err)
		}
	}
	return charges, nil
}

// stand waits in line until the request is judged, and serves others if it is its turn.
func (p *Plugin) stand(ctx context.Context, namespace string, t *ticket) error {
	if !p.enter(namespace, t) {
		select {
		case <-t.done:
			return t.err
		case <-t.lead:
		case <-ctx.Done():
			if p.leave(namespace, t) {
				return admission.Internal(ctx.Err())
			}
			select { // somebody serves it, or it has to serve
			case <-t.done:
				return t.err
			case <-t.lead:
			}
		}
	}
	p.round(ctx, namespace)
	return t.err
}

// enter joins the line, and tells whether t has to serve it.
func (p *Plugin) enter(namespace string, t *ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, served := p.lines[namespace]
	t.serves = !served
	p.lines[namespace] = append(waiting, t)
	return t.serves
}

// leave takes t out of the line, unless it is too late.
func (p *Plugin) leave(namespace string, t *ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.lines[namespace]
	at := slices.Index(waiting, t)
	if at < 0 || t.serves {
		return false
	}
	p.lines[namespace] = slices.Delete(waiting, at, at+1)
	return true
}

// round serves whoever waits now and hands the line on. It does not end early with the request of
// the one who serves: the others have nothing to do with that.
func (p *Plugin) round(ctx context.Context, namespace string) {
	p.mu.Lock()
	waiting := p.lines[namespace]
	n := min(len(waiting), batch)
	served := waiting[:n:n]
	p.lines[namespace] = waiting[n:]
	p.mu.Unlock()
	defer func() {
		for _, t := range served {
			close(t.done)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		waiting := p.lines[namespace]
		if len(waiting) == 0 {
			delete(p.lines, namespace)
			return
		}
		waiting[0].serves = true
		close(waiting[0].lead)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.Timeout)
	defer cancel()
	p.charge(ctx, namespace, served)
}
