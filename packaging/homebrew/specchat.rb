class Specchat < Formula
  include Language::Python::Virtualenv

  desc "Terminal chat with local models, faster than by the model alone"
  homepage "@HOMEPAGE@"
  url "@BASE_URL@/specchat-@VERSION@.tar.gz"
  sha256 "@SDIST_SHA256@"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "python@3.13"

  def install
    python = Formula["python@3.13"].opt_bin/"python3.13"
    system python, "-m", "venv", libexec
    # Built for this Mac: packaging/llama/build.py leaves out what the bindings never call.
    ENV["SPECCHAT_WHEEL_CACHE"] = (buildpath/"wheels").to_s
    wheel = Utils.safe_popen_read(libexec/"bin/python", "packaging/llama/build.py").strip
    system libexec/"bin/python", "-m", "pip", "install", "--no-cache-dir",
           "--find-links", File.dirname(wheel), buildpath
    bin.install_symlink libexec/"bin/specchat"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/specchat --version")
  end
end
