package serve

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// maxMessage is how large a message CRI allows, in bytes.
const maxMessage = 16 << 20

// Runtime is the runtime to serve.
type Runtime interface {
	cri.RuntimeService
	cri.ImageService
}

// Server serves one runtime. Make one with New.
type Server struct {
	runtime Runtime
}

// New makes a server of a runtime.
func New(runtime Runtime) *Server { return &Server{runtime: runtime} }

// Run serves the listener's connections until the context ends, which also ends the contexts of calls, and returns nil
// after every call has returned. It closes the listener. It may be called for several listeners.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.WaitForHandlers(true))
	v1.RegisterRuntimeServiceServer(server, &runtimeServer{runtime: s.runtime})
	v1.RegisterImageServiceServer(server, &imageServer{images: s.runtime})
	stopped := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		defer close(stopped)
		server.Stop()
	})
	err := server.Serve(listener)
	if !undo() { // the context has ended
		<-stopped
		return nil
	}
	server.Stop()
	if err != nil {
		return fmt.Errorf("serving CRI on %s: %w", listener.Addr(), err)
	}
	return nil
}

// part finds an optional part of a runtime.
func part[T any](runtime any, name string) (T, error) {
	if found, ok := runtime.(T); ok {
		return found, nil
	}
	var none T
	return none, wire.EncodeError(fmt.Errorf("%s: %w", name, cri.ErrUnsupported))
}

// answer returns a call's message with its error converted.
func answer[T any](message *T, err error) (*T, error) {
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	return message, nil
}
