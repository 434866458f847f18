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

// Options say what cluster to start. The zero value is one member without TLS and authentication.
type Options struct {
	// Members is how many there are; 0 means 1.
	Members int
	// TLS makes clients prove who they are by a certificate and the members, too.
	TLS bool
	// Password, unless empty, turns authentication on, with it as root's.
	Password string
	// Proxies leads clients of a single member through a proxy as well, so that CutClients works.
	Proxies bool
	// Fsync makes members write to disk for good before they answer, as in production. Without it only the
	// end of the whole machine loses data, not that of a member.
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

// readyPatience is how long members may take to answer; a busy machine is slow.
const readyPatience = 2 * time.Minute

// Start runs a cluster until the test ends and returns when each member answers.
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

// plan makes the members and all ways between them.
func (c *Cluster) plan() error {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	byAddress := map[string]*member{}
	for i := range c.options.Members {
		// Nobody routes these addresses; being no loopback ones they make etcd use its proxy.
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
		"--quota-backend-bytes=536870912", // it reserves as many addresses, 10 GiB by default, which a bounded process may not have
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

// Members is how many there are; they are numbered from 0.
func (c *Cluster) Members() int { return len(c.members) }

// Endpoints are the URLs of all members for clients.
func (c *Cluster) Endpoints() []string {
	var all []string
	for i := range c.members {
		all = append(all, c.Endpoint(i))
	}
	return all
}

// Endpoint is the URL of a member for clients. It stays the same when the member starts again.
func (c *Cluster) Endpoint(i int) string { return c.scheme() + c.members[i].endpoint() }

// Direct is the URL of a member past the proxies, until it starts again.
func (c *Cluster) Direct(i int) string { return c.scheme() + c.members[i].clientAddress() }

// Kill ends a member at once, and returns when it is gone. It keeps its data.
func (c *Cluster) Kill(t testing.TB, i int) { c.do(t, c.members[i].end(syscall.SIGKILL)) }

// Stop lets a member end by itself.
func (c *Cluster) Stop(t testing.TB, i int) { c.do(t, c.members[i].end(syscall.SIGTERM)) }

// Restart starts a member that was ended, and returns when it answers, which takes a majority of members. A
// member that does not run yet when others are to follow takes StartMember.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	c.StartMember(t, i)
	c.WaitReady(t, i)
}

// StartMember starts a member that was ended, and does not wait for it.
func (c *Cluster) StartMember(t testing.TB, i int) {
	t.Helper()
	c.do(t, c.members[i].start(c.binary, c.args))
}

// WaitReady returns when a member reads and so knows a leader.
func (c *Cluster) WaitReady(t testing.TB, i int) {
	t.Helper()
	c.do(t, c.waitReady(t.Context(), i, true))
}

// Pause freezes a member, with its connections; Resume lets it go on.
func (c *Cluster) Pause(t testing.TB, i int) { c.do(t, c.members[i].signal(syscall.SIGSTOP)) }

// Resume ends a Pause.
func (c *Cluster) Resume(t testing.TB, i int) { c.do(t, c.members[i].signal(syscall.SIGCONT)) }

// Cut sets what the links do between two members, both ways.
func (c *Cluster) Cut(i, j int, mode Mode) {
	c.members[i].out.links[c.members[j].virtual].set(mode)
	c.members[j].out.links[c.members[i].virtual].set(mode)
}

// CutOneWay sets what the link does that one member opens connections to another by; both send over these.
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

// CutClients sets what the way of clients to a member does. It needs several members, or Options.Proxies.
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

// Leader waits until members that can be reached agree with a majority on a leader and returns its number.
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

// leader asks members for the leader they know; one that a majority names in the newest term is it.
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

// direct is a client of one member that takes no proxy.
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

// tell logs the ends of the members' logs.
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
