package memory

import (
	"sync"

	"github.com/keelson-dev/keelson/proxy"
)

// Checks is a proxy.Checker that only keeps what would be answered. The zero value is ready to use, from many goroutines.
type Checks struct {
	mu     sync.RWMutex
	checks map[proxy.Service][]proxy.Check
}

var _ proxy.Checker = (*Checks)(nil)

// Check implements proxy.Checker.
func (c *Checks) Check(checks map[proxy.Service][]proxy.Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checks == nil {
		c.checks = map[proxy.Service][]proxy.Check{}
	}
	for service, all := range checks {
		if c.checks[service] = all; len(all) == 0 {
			delete(c.checks, service)
		}
	}
}

// At returns what answers at a port; it is false if nothing does. Of several services, it is the first by name.
func (c *Checks) At(port uint16, is6 bool) (service proxy.Service, check proxy.Check, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for s, all := range c.checks {
		for _, one := range all {
			if one.Port == port && one.Is6 == is6 && (!ok || proxy.CompareServices(s, service) < 0) {
				service, check, ok = s, one, true
			}
		}
	}
	return service, check, ok
}
