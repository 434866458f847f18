// Package depcheck has only tests. They check what the packages of this module import and depend on, that everything
// exported is documented, that package documentation names the packages below it, and that links in pages work.
package depcheck
