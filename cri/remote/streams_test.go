package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/keelson-dev/keelson/cri/runtimetest"
)

// connector speaks to streaming servers as kubectl does: over SPDY, or over websockets.
type connector struct{ websocket bool }

func (c connector) Stream(ctx context.Context, address string, s runtimetest.Streams) (int, error) {
	target, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	config := &rest.Config{Host: target.Host}
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if c.websocket {
		executor, err = remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, address, "v4.channel.k8s.io")
	}
	if err != nil {
		return 0, err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.TTY})
	var exit exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// forwarded is one connection with the one that carries it.
type forwarded struct {
	io.ReadWriteCloser
	close func() error
}

func (f forwarded) Close() error { return errors.Join(f.ReadWriteCloser.Close(), f.close()) }

func (connector) Forward(_ context.Context, address string, port int32) (io.ReadWriteCloser, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: target.Host})
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	header.Set(corev1.PortHeader, fmt.Sprint(port))
	header.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(1))
	failure, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := failure.Close(); err != nil { // nothing is written to it
		return nil, errors.Join(err, conn.Close())
	}
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return forwarded{data, conn.Close}, nil
}
