package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-dev/keelson/internal/pause"
)

// Options configures a Cluster. The zero value is one member without TLS and authentication.
type Options struct {
	// Members is the number of members; 0 means 1.
	Members int
	// TLS makes clients and members authenticate with certificates.
	TLS bool
	// Password, unless empty, turns on authentication, and is root's password.
	Password string
	// Proxies makes clients connect through a proxy even to a single member, so that CutClients works.
	Proxies bool
	// Fsync makes members sync writes to disk before they answer, as in production. Without it, data is lost only if
	// the machine crashes, not if a member does.
	Fsync bool
	// Args are more flags for each member.
	Args []string
}

// Cluster is a running etcd.
type Cluster struct {
	options Options
	binary  string
	dir     string
	members []*member
	files   files
	cancel  context.CancelFunc
}

// readyPatience is how long members may take to answer, even on a busy machine.
const readyPatience = 2 * time.Minute

// Start runs a cluster until the test ends, and returns when each member answers.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	binary := Binary(t)
	options.Members = max(options.Members, 1)
	c := &Cluster{options: options, binary: binary, dir: t.TempDir()}
	t.Cleanup(func() { c.close(t) })
	if err := c.start(t.Context()); err != nil {
		t.Fatalf("etcd: %v", err)
	}
	return c
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.issue(); err != nil {
		return err
	}
	if err := c.plan(); err != nil {
		return err
	}
	for i := range c.members {
		if err := c.members[i].start(c.binary, c.args); err != nil {
			return err
		}
	}
	for i := range c.members {
		if err := c.waitReady(ctx, i, false); err != nil {
			return err
		}
	}
	if c.options.Password != "" {
		return c.authenticate(ctx)
	}
	return nil
}

// plan makes the members and all links between them.
func (c *Cluster) plan() error {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	byAddress := map[string]*member{}
	for i := range c.options.Members {
		// These addresses are not routed; since they are not loopback addresses, etcd uses its proxy for them.
		m := &member{name: fmt.Sprintf("m%d", i), virtual: fmt.Sprintf("192.0.2.%d:2380", i+1)}
		m.dir = filepath.Join(c.dir, m.name)
		byAddress[m.virtual] = m
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		if c.options.Members > 1 || c.options.Proxies {
			var err error
			if m.clients, err = newEntrance(ctx, m.clientAddress); err != nil {
				return err
			}
		}
		links := map[string]*link{}
		for address, other := range byAddress {
			if other != m {
				links[address] = newLink()
			}
		}
		var err error
		if m.out, err = newExitProxy(ctx, links, func(a string) string { return byAddress[a].peerAddress() }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) args(m *member) []string {
	var all []string
	for _, other := range c.members {
		all = append(all, other.name+"=https://"+other.virtual)
	}
	scheme := c.scheme()
	args := []string{
		"--name=" + m.name, "--data-dir=" + m.dir, "--log-level=warn", "--enable-grpc-gateway=false",
		"--listen-client-urls=" + scheme + m.clientAddress(), "--advertise-client-urls=" + scheme + m.endpoint(),
		"--listen-peer-urls=https://" + m.peerAddress(), "--initial-advertise-peer-urls=https://" + m.virtual,
		"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-token=" + filepath.Base(c.dir), "--peer-auto-tls",
		"--heartbeat-interval=50", "--election-timeout=500",
		"--quota-backend-bytes=536870912", // address space; the default of 10 GiB exceeds process limits
	}
	if !c.options.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	if c.options.TLS {
		args = append(args, "--cert-file="+c.files.serverCert, "--key-file="+c.files.serverKey,
			"--trusted-ca-file="+c.files.ca, "--client-cert-auth")
	}
	return append(args, c.options.Args...)
}

func (c *Cluster) scheme() string {
	if c.options.TLS {
		return "https://"
	}
	return "http://"
}

// Members returns the number of members, which are numbered from 0.
func (c *Cluster) Members() int { return len(c.members) }

// Endpoints returns the client URLs of all members.
func (c *Cluster) Endpoints() []string {
	var all []string
	for i := range c.members {
		all = append(all, c.Endpoint(i))
	}
	return all
}

// Endpoint returns the client URL of a member. It stays the same when the member restarts.
func (c *Cluster) Endpoint(i int) string { return c.scheme() + c.members[i].endpoint() }

// Direct returns the URL of a member that bypasses the proxies, valid until it restarts.
func (c *Cluster) Direct(i int) string { return c.scheme() + c.members[i].clientAddress() }

// Kill kills a member, and returns when it is gone. Its data is kept.
func (c *Cluster) Kill(t testing.TB, i int) { c.do(t, c.members[i].end(syscall.SIGKILL)) }

// Stop shuts a member down gracefully.
func (c *Cluster) Stop(t testing.TB, i int) { c.do(t, c.members[i].end(syscall.SIGTERM)) }

// Restart starts a stopped member and returns when it answers, which requires a majority of members. To start several
// members, use StartMember.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	c.StartMember(t, i)
	c.WaitReady(t, i)
}

// StartMember starts a stopped member, without waiting for it.
func (c *Cluster) StartMember(t testing.TB, i int) {
	t.Helper()
	c.do(t, c.members[i].start(c.binary, c.args))
}

// WaitReady returns when a member answers reads, and so knows a leader.
func (c *Cluster) WaitReady(t testing.TB, i int) {
	t.Helper()
	c.do(t, c.waitReady(t.Context(), i, true))
}

// Pause freezes a member, with its connections, until Resume.
func (c *Cluster) Pause(t testing.TB, i int) { c.do(t, c.members[i].signal(syscall.SIGSTOP)) }

// Resume ends a Pause.
func (c *Cluster) Resume(t testing.TB, i int) { c.do(t, c.members[i].signal(syscall.SIGCONT)) }

// Cut sets the mode of the links between two members, in both directions.
func (c *Cluster) Cut(i, j int, mode Mode) {
	c.members[i].out.links[c.members[j].virtual].set(mode)
	c.members[j].out.links[c.members[i].virtual].set(mode)
}

// CutOneWay sets the mode of the link over which one member opens connections to another; both send data over these.
func (c *Cluster) CutOneWay(from, to int, mode Mode) {
	c.members[from].out.links[c.members[to].virtual].set(mode)
}

// Isolate cuts a member off from all others, but not from its clients.
func (c *Cluster) Isolate(i int, mode Mode) {
	for j := range c.members {
		if j != i {
			c.Cut(i, j, mode)
		}
	}
}

// CutClients sets the mode of the clients' link to a member. It needs several members, or Options.Proxies.
func (c *Cluster) CutClients(i int, mode Mode) { c.members[i].clients.set(mode) }

// Heal opens all links.
func (c *Cluster) Heal() {
	for _, m := range c.members {
		if m.clients != nil {
			m.clients.set(Open)
		}
		for _, l := range m.out.links {
			l.set(Open)
		}
	}
}

// Leader waits until a majority of members, among those that can be reached, agrees on a leader, and returns its
// number.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyPatience)
	defer cancel()
	for {
		if leader, ok := c.leader(ctx); ok {
			return leader
		}
		if err := pause.For(ctx, probeInterval); err != nil {
			t.Fatalf("etcd has no leader: %v", err)
		}
	}
}

// leader asks members for their leader; it is the one that a majority names in the newest term.
func (c *Cluster) leader(ctx context.Context) (int, bool) {
	ids, votes := map[uint64]int{}, map[[2]uint64]int{}
	for i := range c.members {
		status, err := c.status(ctx, i)
		if err != nil {
			continue
		}
		ids[status.Header.MemberId] = i
		if status.Leader != 0 {
			votes[[2]uint64{status.RaftTerm, status.Leader}]++
		}
	}
	for vote, n := range votes {
		if i, known := ids[vote[1]]; known && n > len(c.members)/2 {
			return i, true
		}
	}
	return 0, false
}

const (
	probeInterval = 20 * time.Millisecond
	probePatience = 2 * time.Second
)

func (c *Cluster) status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	client, err := c.direct(i, c.options.Password != "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	return client.Status(ctx, c.scheme()+c.members[i].clientAddress())
}

// direct returns a client of one member that bypasses the proxies.
func (c *Cluster) direct(i int, auth bool) (*clientv3.Client, error) {
	config := c.config([]string{c.scheme() + c.members[i].clientAddress()}, auth)
	return clientv3.New(config)
}

func (c *Cluster) waitReady(ctx context.Context, i int, auth bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		err := c.probe(ctx, i, auth)
		if err == nil {
			return nil
		}
		select {
		case <-c.members[i].exited():
			return fmt.Errorf("%s ended by itself", c.members[i].name)
		default:
		}
		if pause.For(ctx, probeInterval) != nil {
			return fmt.Errorf("%s does not answer: %w", c.members[i].name, err)
		}
	}
}

func (c *Cluster) probe(ctx context.Context, i int, auth bool) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	client, err := c.direct(i, auth && c.options.Password != "")
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = client.Get(ctx, "health")
	return err
}

func (c *Cluster) do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("etcd: %v", err)
	}
}

func (c *Cluster) close(t testing.TB) {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.end(syscall.SIGKILL))
	}
	if c.cancel != nil {
		c.cancel()
	}
	for _, m := range c.members {
		if m.clients != nil {
			m.clients.close()
		}
		if m.out != nil {
			m.out.close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("etcd: %v", err)
	}
	if t.Failed() {
		c.tell(t)
	}
}

// tell prints the last lines of the members' logs.
func (c *Cluster) tell(t testing.TB) {
	const lines = 15
	for _, m := range c.members {
		log, err := os.ReadFile(m.dir + ".log")
		if err != nil {
			continue
		}
		all := slices.Collect(strings.Lines(string(log)))
		t.Logf("the end of %s's log:\n%s", m.name, strings.Join(all[max(0, len(all)-lines):], ""))
	}
}
