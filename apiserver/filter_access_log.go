package apiserver

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

// accessLogFilter writes a line about each request to the log: at debug level, or at info level if the server failed.
type accessLogFilter struct {
	log *slog.Logger
}

// open prepares the line, if anybody reads such. It is written when the response is complete, and then the request of a
// stream is gone.
func (f *accessLogFilter) open(x *exchange, r *http.Request) {
	ctx, level := r.Context(), slog.LevelDebug
	if x.code >= http.StatusInternalServerError {
		level = slog.LevelInfo
	}
	if !f.log.Enabled(ctx, level) {
		return
	}
	uri, agent, from := audit.RequestURI(r.URL), r.UserAgent(), r.RemoteAddr
	x.logAccess = func() {
		user := ""
		if x.user != nil {
			user = x.user.Name
		}
		f.log.LogAttrs(ctx, level, "request",
			slog.String("verb", x.request.Verb), slog.String("uri", uri), slog.Int("code", x.code), slog.Duration("took", time.Since(x.received)),
			slog.String("user", user), slog.String("agent", agent), slog.String("from", from),
			slog.Int64("size", x.size), slog.String("audit-id", x.shortID()))
	}
}
