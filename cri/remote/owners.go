package remote

import "sync"

// ownersLimit bounds the cache; no node runs so many containers.
const ownersLimit = 10_000

// owners caches the sandbox of each container. CRI has it in lists only, and it never changes. The zero value is ready
// to use.
type owners struct {
	mu        sync.Mutex
	sandboxOf map[string]string
}

func (o *owners) put(container, sandbox string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sandboxOf == nil || len(o.sandboxOf) >= ownersLimit {
		o.sandboxOf = map[string]string{}
	}
	o.sandboxOf[container] = sandbox
}

func (o *owners) get(container string) (sandbox string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sandbox, ok = o.sandboxOf[container]
	return sandbox, ok
}

func (o *owners) forget(container string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sandboxOf, container)
}

func (o *owners) forgetSandbox(sandbox string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, of := range o.sandboxOf {
		if of == sandbox {
			delete(o.sandboxOf, id)
		}
	}
}
