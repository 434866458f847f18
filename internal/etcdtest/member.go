package etcdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// member is one etcd with its data, which outlives the process.
type member struct {
	name    string
	dir     string
	virtual string    // host:port by which other members know it; reachable only through the links
	clients *entrance // nil if clients connect directly
	out     *exitProxy

	mu     sync.Mutex
	client string // host:port it listens on for clients
	peer   string // host:port it listens on for members
	ended  chan struct{}
	proc   *os.Process
}

// endpoint is the address for clients.
func (m *member) endpoint() string {
	if m.clients != nil {
		return m.clients.address()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

func (m *member) peerAddress() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peer
}

func (m *member) clientAddress() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

// start runs etcd with args. Addresses that only proxies know are new each time.
func (m *member) start(binary string, args func(*member) []string) error {
	if err := m.choosePorts(); err != nil {
		return err
	}
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log of %s: %w", m.name, err)
	}
	cmd := exec.Command(binary, args(m)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(clean(os.Environ()), m.out.environment()...)
	cmd.SysProcAttr = attributes()

	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = log.Close() }() // only etcd writes it
		runtime.LockOSThread()             // the process dies with its parent's thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // usually killed
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proc, m.ended = cmd.Process, ended
	return nil
}

// end sends a signal and waits until the process is gone.
func (m *member) end(signal syscall.Signal) error {
	m.mu.Lock()
	proc, ended := m.proc, m.ended
	m.proc = nil
	m.mu.Unlock()
	if proc == nil {
		return nil
	}
	if err := proc.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", m.name, err)
	}
	<-ended
	return nil
}

func (m *member) signal(signal syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return fmt.Errorf("%s does not run", m.name)
	}
	if err := m.proc.Signal(signal); err != nil {
		return fmt.Errorf("signal %s: %w", m.name, err)
	}
	return nil
}

// exited returns a channel that is closed when the process started last has ended.
func (m *member) exited() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

func (m *member) choosePorts() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != "" && m.clients == nil {
		return nil // clients use this address
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return err
	}
	m.client, m.peer = addresses[0], addresses[1]
	return nil
}

// The ports of members are below those that systems give to outgoing connections, one of which may otherwise take a port before
// the member listens there, also while it is down.
const (
	firstPort = 20000
	lastPort  = 32000
)

func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for attempt := 1; len(addresses) < n; attempt++ {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // any will do
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		switch {
		case err == nil:
			defer func() { _ = l.Close() }() // closed only at the end, so that no address is returned twice
			addresses = append(addresses, l.Addr().String())
		case attempt == 100:
			return nil, fmt.Errorf("find a port: %w", err)
		}
	}
	return addresses, nil
}

// clean drops variables that would configure etcd or its network.
func clean(environment []string) []string {
	var kept []string
	for _, e := range environment {
		name := strings.ToUpper(strings.SplitN(e, "=", 2)[0])
		if !strings.HasPrefix(name, "ETCD_") && !strings.HasSuffix(name, "_PROXY") {
			kept = append(kept, e)
		}
	}
	return kept
}
