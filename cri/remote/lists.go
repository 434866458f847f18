package remote

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tooLong reports whether a list failed because it exceeds one message.
func tooLong(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// streamed reads a list that is too long for one message as a stream, which newer runtimes support (KEP-5825). With
// others it returns the list's error.
func streamed[M, T any](failure error, open func() (grpc.ServerStreamingClient[M], error), items func(*M) []T) ([]T, error) {
	stream, err := open()
	var all []T
	for err == nil { // to the end, which also frees the stream
		var message *M
		if message, err = stream.Recv(); err == nil {
			all = append(all, items(message)...)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return all, nil
	case status.Code(err) == codes.Unimplemented:
		return nil, failure
	}
	return nil, err
}
