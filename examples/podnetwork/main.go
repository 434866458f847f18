// Podnetwork uses cni alone, without a kubelet, a runtime or a cluster: it attaches two network namespaces to one
// bridge, like two pods, lets one connect to the other by its address, and cleans everything up. It needs root on
// Linux, ip and nft, and the CNI plugins in the directory that --bin names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/cni/plugins"
)

func main() {
	bin := flag.String("bin", "bin/node/cni", "directory of the CNI plugins")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *bin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // there is nothing left to cancel
	}
}

// run leaves nothing behind, neither on the host nor in the file system.
func run(ctx context.Context, bin string, out io.Writer) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podnetwork-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	// A node does this once: it creates the bridge and the configuration for attaching pods to it.
	node, err := bridge.New([]netip.Prefix{netip.MustParsePrefix("10.88.77.0/24")}, bridge.Options{
		Network: "podnetwork", Bridge: "podnetwork0", DataDir: filepath.Join(dir, "addresses"),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Down(context.WithoutCancel(ctx))) }()
	if err := node.Up(ctx); err != nil {
		return err
	}
	configs := filepath.Join(dir, "net.d")
	if _, err := bridge.WriteFile(filepath.Join(configs, "10-podnetwork.conflist"), node.Config()); err != nil {
		return err
	}
	network := plugins.New(configs, plugins.Options{BinDirs: []string{bin}, StateDir: filepath.Join(dir, "state")})
	if err := network.Status(ctx); err != nil {
		return err
	}

	// A node does this for each pod.
	var pods [2]pod
	for i, name := range []string{"server", "client"} {
		pods[i] = pod{name: name, ns: filepath.Join(dir, "netns", name)}
		defer func() { err = errors.Join(err, pods[i].detach(context.WithoutCancel(ctx), network)) }()
		if err := pods[i].attach(ctx, network); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s has %v\n", name, pods[i].ip)
	}
	return pods[1].greet(ctx, pods[0], out)
}

// pod is a network namespace with an address.
type pod struct {
	name, ns string
	ip       netip.Addr
}

func (p *pod) attachment() cni.Attachment {
	return cni.Attachment{ContainerID: p.name, NetNS: p.ns, Pod: cni.Pod{Namespace: "default", Name: p.name}}
}

func (p *pod) attach(ctx context.Context, network cni.Attacher) error {
	if err := netns.Create(p.ns); err != nil {
		return err
	}
	result, err := network.Add(ctx, p.attachment())
	if err != nil {
		return err
	}
	p.ip = result.PodIPs()[0]
	return nil
}

func (p *pod) detach(ctx context.Context, network cni.Attacher) error {
	return errors.Join(network.Delete(ctx, p.attachment()), netns.Remove(p.ns))
}

// greet connects p to the other pod and prints what it receives.
func (p *pod) greet(ctx context.Context, other pod, out io.Writer) error {
	var listener net.Listener
	if err := netns.Do(other.ns, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(other.ip, 8080).String())
		return err
	}); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, err = fmt.Fprintf(connection, "hello %v, this is %s", connection.RemoteAddr().(*net.TCPAddr).IP, other.name)
			err = errors.Join(err, connection.Close())
		}
		served <- err
	}()
	said, err := p.listen(ctx, listener.Addr().String())
	err = errors.Join(err, listener.Close())
	if failed := <-served; err == nil {
		err = failed
	}
	if err == nil {
		fmt.Fprintf(out, "%s hears: %s\n", p.name, said)
	}
	return err
}

func (p *pod) listen(ctx context.Context, address string) (said []byte, err error) {
	err = netns.Do(p.ns, func() error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer connection.Close() //nolint:errcheck // it is only read
		if deadline, ok := ctx.Deadline(); ok {
			if err := connection.SetDeadline(deadline); err != nil {
				return err
			}
		}
		said, err = io.ReadAll(connection)
		return err
	})
	return said, err
}
